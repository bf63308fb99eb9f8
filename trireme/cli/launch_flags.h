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

// For commands whose ranks may compute on GPUs, after the parsing: how they exchange what lies there.
// --transport nccl is from GPU to GPU, and the transport beside it is chosen; check_links() says whether the
// device can. Ranks of -n that have one GPU among them are threads and exchange in its memory, unless a
// transport or a link is asked for.
void take_device_links(comm::LaunchOptions& options, bool on_one_gpu);

// --restarts, --elastic and --grow-after, for commands whose ranks resume from what they have saved.
void add_restarts_flag(CLI::App& app, comm::LaunchOptions& options);

// --link alone, for commands that only predict.
void add_link_flag(CLI::App& app, std::optional<comm::EmulatedLink>& link);

}  // namespace trireme::cli
