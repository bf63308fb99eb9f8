// By what the collectives of a job choose their algorithms: `--links` of trireme train.
#pragma once

#include <string>

#include "trireme/comm/context.h"

namespace trireme::cli {

// Collective. "" leaves the fixed rules, "probe" measures the links now, anything else is a file that
// `trireme bench collectives --calibrate` wrote. Returns what was done, for people. Groups that are made
// afterwards use it.
std::string use_links(comm::Context& context, const std::string& links);

}  // namespace trireme::cli
