// Fixed rules; see choice.h.
#include "trireme/comm/collective/choice.h"

#include <algorithm>

#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/collective/levels.h"

namespace trireme::comm {
namespace {

constexpr size_t kSmallBytes = 16 * 1024;
constexpr size_t kSmallPartBytes = 2 * 1024;  // docs/collectives_experiments.md

bool knows_two_levels(Collective collective) {
  const std::vector<Algorithm> known = algorithms_of(collective);
  return std::ranges::find(known, Algorithm::hierarchical) != known.end();
}

// Several hosts with several ranks each, of each as many: nobody has to speak for others.
bool shares_hosts_evenly(std::span<const int> hosts) {
  if (hosts.empty()) return false;
  const Levels levels(static_cast<int>(hosts.size()), hosts);
  return levels.lanes > 1 && levels.host_count() > 1 && levels.most_further() == 0;
}

// Of H hosts with L ranks each, two levels save a rank (L-1)(H-1) messages, and have it pass on as many parts
// inside: that pays where a part takes less time than a message. Only equal parts can be passed on.
Algorithm all_to_all_for(const Call& call, std::span<const int> hosts) {
  if (call.count == 0 || !shares_hosts_evenly(hosts)) return Algorithm::naive;
  const size_t part_bytes = static_cast<size_t>(call.count) * size_of(call.dtype) / hosts.size();
  return part_bytes <= kSmallPartBytes ? Algorithm::hierarchical : Algorithm::naive;
}

Algorithm algorithm_for(const Call& call, std::span<const int> hosts) {
  if (call.collective == Collective::all_to_all) return all_to_all_for(call, hosts);
  const bool small = static_cast<size_t>(call.count) * size_of(call.dtype) <= kSmallBytes;
  if (!small && shares_hosts_evenly(hosts) && knows_two_levels(call.collective))
    return Algorithm::hierarchical;
  switch (call.collective) {
    case Collective::all_reduce:
      return small ? Algorithm::butterfly : Algorithm::reduce_scatter_gather;
    case Collective::reduce_scatter:
    case Collective::all_gather:
      return small ? Algorithm::butterfly : Algorithm::ring;
    case Collective::broadcast:
    case Collective::reduce:
      return Algorithm::tree;
    case Collective::gather:
    case Collective::scatter:
      return small ? Algorithm::tree : Algorithm::naive;
    case Collective::barrier:
      return Algorithm::butterfly;
    case Collective::all_to_all:  // above
    case Collective::message:
      break;
  }
  return Algorithm::naive;
}

}  // namespace

Choice fixed_choice(const Call& call, bool native_offered, std::span<const int> hosts) {
  return {.algorithm = native_offered ? Algorithm::native : algorithm_for(call, hosts),
          .segment_bytes = kDefaultSegmentBytes};
}

}  // namespace trireme::comm
