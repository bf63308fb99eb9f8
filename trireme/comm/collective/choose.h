// Which algorithm to run a call with, by the times in a LinkTable.
#pragma once

#include <span>
#include <vector>

#include "trireme/comm/collective/choice.h"
#include "trireme/comm/collective/link_table.h"

namespace trireme::comm {

// How long a call that names its algorithm should take: as timed, if the table is of so many ranks (beyond
// the longest vector that was timed, grown as the closed form grows); else by the algorithm's closed form on
// the fitted link. The transport's native way has no closed form: its times stand for other numbers of ranks
// too. 0 if it was not timed.
double predict_call(const Call& call, int ranks, std::span<const int> hosts, const LinkTable& table);

// The algorithm that should take the least time, or the one that the call names, with a prediction. Pure, and
// equal on all ranks that run the same program with the same table. `native_offered`: the transport has a
// native way, which is also chosen if it was never timed.
Choice choose(const Call& call, int ranks, std::span<const int> hosts, const LinkTable& table,
              bool native_offered);

// The same as choose(), to give to a Group.
Chooser make_chooser(LinkTable table, std::vector<int> hosts);

}  // namespace trireme::comm
