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

// For commands whose ranks may exchange from GPU to GPU: after the parsing, --transport nccl as what it
// means, and the transport beside it is chosen. check_links() says whether the device can.
void take_device_links(comm::LaunchOptions& options);

// --link alone, for who only predicts.
void add_link_flag(CLI::App& app, std::optional<comm::EmulatedLink>& link);

}  // namespace trireme::cli
