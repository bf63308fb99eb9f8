// Names and costs of collectives; see collective.h.
#include "trireme/ir/collective.h"

namespace trireme {

std::string_view name(CollectiveKind kind) {
  constexpr std::string_view names[] = {"all_reduce", "reduce_scatter", "all_gather", "all_to_all", "shift"};
  return names[static_cast<int>(kind)];
}

double bytes_sent(CollectiveKind kind, int64_t ways, double given, double gotten) {
  const double share = static_cast<double>(ways - 1) / static_cast<double>(ways);
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return 2 * share * given;
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllToAll:
      return share * given;
    case CollectiveKind::kAllGather:
      return share * gotten;
    case CollectiveKind::kShift:
      return ways > 1 ? given : 0;
  }
  return 0;
}

}  // namespace trireme
