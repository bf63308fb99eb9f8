// See restarts.h.
#include "trireme/comm/launch/restarts.h"

#include <algorithm>

namespace trireme::comm {

std::optional<Restarts::Seconds> Restarts::next(Seconds ran) {
  if (ran >= kForgotten) count_ = 0;
  if (count_ == most_) return std::nullopt;
  const int doublings = std::min(count_++, 6);
  return std::min(Seconds(1 << doublings), Seconds(60));
}

}  // namespace trireme::comm
