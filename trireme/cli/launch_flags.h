// The flags of every command that runs on ranks: -n, --launcher, --bind, --transport, --timeout, --secret-file.
#pragma once

#include "trireme/comm/launch/environment.h"

namespace CLI {
class App;
}

namespace trireme::cli {

// `options` outlives the parsing.
void add_launch_flags(CLI::App& app, comm::LaunchOptions& options);

}  // namespace trireme::cli
