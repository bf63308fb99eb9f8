// The flags of every command that runs on ranks: -n, --launcher, --bind, --transport, --link, --timeout,
// --secret-file.
#pragma once

#include "trireme/comm/launch/environment.h"

namespace CLI {
class App;
}

namespace trireme::cli {

// `options` outlives the parsing.
void add_launch_flags(CLI::App& app, comm::LaunchOptions& options);

// --link alone, for who only predicts.
void add_link_flag(CLI::App& app, std::optional<comm::EmulatedLink>& link);

}  // namespace trireme::cli
