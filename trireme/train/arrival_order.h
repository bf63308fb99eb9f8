// The order in which a rank took the messages of others (runtime/arrivals.h), in logs: it stands in
// metrics.jsonl, as `arrivals` of each step, so that the run can be made again with the same bits.
#pragma once

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/exchange/arrival_policy.h"
#include "trireme/kernels/communicator.h"

namespace trireme {

// What one of `ranks` ranks took, as `path` says, the metrics.jsonl of a run with this agreement. Throws
// Error for a file that is not one, and for ranks that such a rank takes nothing of.
ArrivalOrder read_arrivals(const std::string& path, const Agreement& agreement, int ranks, int rank);
// The same of an open file; `path` is for messages.
ArrivalOrder parse_arrivals(std::istream& in, const std::string& path, const Agreement& agreement, int ranks,
                            int rank);

// What all ranks along an axis have taken, in their order; on each of them. Collective.
std::vector<ArrivalOrder> gathered_arrivals(const ArrivalOrder& own, Communicator& communicator,
                                            std::string_view axis);

}  // namespace trireme
