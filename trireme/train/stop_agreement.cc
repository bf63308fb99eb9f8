// See stop_agreement.h.
#include "trireme/train/stop_agreement.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/exchange/consistency.h"

namespace trireme {

StopAgreement::StopAgreement(const RankOptions& ranks, const Trainer& trainer, const std::atomic<bool>* stop)
    : ranks_(ranks), trainer_(trainer), stop_(stop) {
  const std::optional<Consistency> how = consistency_of(ranks.plan);
  if (how && how->kind == Consistency::Kind::kDelayed && how->settings.whole("delay") > 0)
    delay_ = std::max(how->settings.whole("delay"), how->period());
}

StopAgreement::~StopAgreement() {
  if (!under_way_) return;
  try {
    ranks_.communicator->wait(reinterpret_cast<std::byte*>(&flag_));
  } catch (const Error&) {
    // It will not come, and the transport has let go of the memory.
  }
}

bool StopAgreement::agreed_after(int64_t steps) {
  if (delay_ == 0) return trainer_.agrees_after(steps) && agreed_now();
  if (steps % delay_ != 0) return false;
  std::byte* const flag = reinterpret_cast<std::byte*>(&flag_);
  if (under_way_) ranks_.communicator->wait(flag);
  const bool stops = under_way_ && flag_ != 0;
  flag_ = asked() ? 1 : 0;
  ranks_.communicator->start_all_reduce(kReplicaAxis, flag, 1, DType::i32, Communicator::Reduction::kMax);
  under_way_ = true;
  return stops;
}

bool StopAgreement::agreed_now() {
  int32_t asked_any = asked() ? 1 : 0;
  for (const Axis& axis : ranks_.plan.mesh.axes()) {
    if (axis.size == 1) continue;
    ranks_.communicator->all_reduce(axis.name, reinterpret_cast<std::byte*>(&asked_any), 1, DType::i32,
                                    Communicator::Reduction::kMax);
  }
  return asked_any != 0;
}

}  // namespace trireme
