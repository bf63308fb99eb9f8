// See stop_agreement.h.
#include "trireme/run/stop_agreement.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/runtime/agree.h"

namespace trireme {

StopAgreement::StopAgreement(const RankOptions& ranks, const Trainer& trainer, const std::atomic<bool>* stop,
                             Clock::time_point deadline, const std::atomic<bool>* regroup)
    : ranks_(ranks), trainer_(trainer), stop_(stop), deadline_(deadline), regroup_(regroup) {
  if (const Agreement& how = ranks.plan.agreement; how.delay() > 0)
    delay_ = std::max(how.delay(), how.period());
  std::vector<Axis> axes = ranks.plan.mesh.axes();
  std::erase_if(axes, [&](const Axis& axis) { return axis.name == replica_axis(ranks.plan.mesh); });
  inside_ = Mesh(std::move(axes));
}

StopAgreement::~StopAgreement() {
  if (!under_way_) return;
  try {
    ranks_.communicator->wait(reinterpret_cast<std::byte*>(&flag_));
  } catch (const Error&) {
    // It will not come, and the transport has let go of the memory.
  }
}

StopReason StopAgreement::reason() const {
  if (told_ || (stop_ && stop_->load())) return StopReason::kAsked;
  if (Clock::now() >= deadline_) return StopReason::kTimeIsUp;
  return regroup_ && regroup_->load() ? StopReason::kRegroup : StopReason::kNone;
}

StopReason StopAgreement::agreed_after(int64_t steps) {
  if (delay_ == 0) return trainer_.agrees_after(steps) ? agreed_now() : StopReason::kNone;
  if (steps % delay_ != 0) return StopReason::kNone;
  std::byte* const flag = reinterpret_cast<std::byte*>(&flag_);
  if (under_way_) ranks_.communicator->wait(flag);
  const StopReason settled = under_way_ ? static_cast<StopReason>(flag_) : StopReason::kNone;
  // The ranks of a replica are in step, and say the same to the others.
  flag_ = agreed(ranks_.communicator, inside_, static_cast<int32_t>(reason()), Communicator::Reduction::kMax);
  ranks_.communicator->start({CollectiveKind::kAllReduce, replica_axis(ranks_.plan.mesh), flag, 1, DType::i32,
                              Communicator::Reduction::kMax});
  under_way_ = true;
  return settled;
}

StopReason StopAgreement::agreed_now() {
  return static_cast<StopReason>(agreed(ranks_.communicator, ranks_.plan.mesh, static_cast<int32_t>(reason()),
                                        Communicator::Reduction::kMax));
}

}  // namespace trireme
