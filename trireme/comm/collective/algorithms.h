// The table of algorithms: which collective can run how. All callers that need Steps ask here.
#pragma once

#include <span>
#include <vector>

#include "trireme/comm/collective/call.h"
#include "trireme/comm/collective/steps.h"

namespace trireme::comm {

// `root` is 0 where there is none. `hosts` is the host number of each rank, for hierarchical; empty: all on
// one. Throws Error, with what there is, for a pair that is not in the table.
Steps make_steps(Collective collective, Algorithm algorithm, int ranks, int root = 0,
                 std::span<const int> hosts = {});

// All that make_steps() knows for a collective, in the order of Algorithm. Never automatic or native.
std::vector<Algorithm> algorithms_of(Collective collective);

// Those of them that are of use to ranks on these hosts: two levels where several hosts have several ranks.
std::vector<Algorithm> algorithms_for(Collective collective, std::span<const int> hosts);

}  // namespace trireme::comm
