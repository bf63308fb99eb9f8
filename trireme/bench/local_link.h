// What ranks have between one another on this machine, or between the hosts that they run on.
#pragma once

#include <string_view>

#include "trireme/comm/context.h"
#include "trireme/mesh/cluster.h"
#include "trireme/runtime/device.h"

namespace trireme::bench {

constexpr std::string_view kLocalLink = "between ranks";

// Collective over all ranks. On the CPU, ranks come to it from work, as they do in a step: α then has what
// they wait for each other, which is much where they share processors, and `slowdown` what work loses to a
// transport that copies by itself, or to sockets, which the kernel serves on the same processors.
LinkClass measure_link(comm::Context& context, Device& device);

}  // namespace trireme::bench
