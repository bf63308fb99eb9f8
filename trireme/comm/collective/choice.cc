// Fixed rules; see choice.h.
#include "trireme/comm/collective/choice.h"

#include <algorithm>

#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/collective/levels.h"

namespace trireme::comm {
namespace {

constexpr size_t kSmallBytes = 16 * 1024;

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

Algorithm algorithm_for(const Call& call, std::span<const int> hosts) {
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
    case Collective::all_to_all:
    case Collective::message:
      return Algorithm::naive;
  }
  return Algorithm::naive;
}

}  // namespace

Choice fixed_choice(const Call& call, bool native_offered, std::span<const int> hosts) {
  return {.algorithm = native_offered ? Algorithm::native : algorithm_for(call, hosts),
          .segment_bytes = kDefaultSegmentBytes};
}

}  // namespace trireme::comm
