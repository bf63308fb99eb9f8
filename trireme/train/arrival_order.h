// In which order a server took the gradients of its workers, or a rank the weights of others that it mixes
// its own with at its own pace (gossip_steps.h): all that chance decides of such a run. It stands in
// metrics.jsonl, as `arrivals` of each step, so that the run can be made again with the same bits.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/kernels/communicator.h"
#include "trireme/plan/agreement.h"

namespace trireme {

// Of one step: the ranks whose gradients or weights were taken, in order; −r where rank r was lost.
using Arrivals = std::vector<int>;

// By step, counted from 1, as `path` says, the metrics.jsonl of a run with servers, of one of them. Throws
// Error for a file that is not one, and for ranks that are no workers of this plan.
std::map<int64_t, Arrivals> read_arrivals(const std::string& path, const Servers& servers, int server);
// The same of one of `ranks` ranks that mix weights.
std::map<int64_t, Arrivals> read_arrivals(const std::string& path, int ranks, int rank);
// The same of an open file; `path` is for messages.
std::map<int64_t, Arrivals> parse_arrivals(std::istream& in, const std::string& path, const Servers& servers,
                                           int server);
std::map<int64_t, Arrivals> parse_arrivals(std::istream& in, const std::string& path, int ranks, int rank);

// What all ranks along an axis have taken, in their order; on each of them. Collective.
std::vector<std::map<int64_t, Arrivals>> gathered_arrivals(const std::map<int64_t, Arrivals>& own,
                                                           Communicator& communicator, std::string_view axis);

}  // namespace trireme
