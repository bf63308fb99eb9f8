// Fixed rules; see choice.h.
#include "trireme/comm/collective/choice.h"

namespace trireme::comm {
namespace {

constexpr size_t kSmallBytes = 16 * 1024;

Algorithm algorithm_for(const Call& call) {
  const bool small = static_cast<size_t>(call.count) * size_of(call.dtype) <= kSmallBytes;
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

Choice fixed_choice(const Call& call, bool native_offered) {
  return {.algorithm = native_offered ? Algorithm::native : algorithm_for(call),
          .segment_bytes = kDefaultSegmentBytes};
}

}  // namespace trireme::comm
