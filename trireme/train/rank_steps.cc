// See rank_steps.h.
#include "trireme/train/rank_steps.h"

namespace trireme {

RankSteps::RankSteps(const RankOptions& ranks, Trainer& trainer, int64_t first, int64_t steps,
                     std::optional<ArrivalOrder> replay)
    : trainer_(trainer),
      driver_(ArrivalDriver::make({ranks.plan.agreement, ranks.plan.mesh.ranks(), ranks.rank, first, steps},
                                  trainer.runner(), ranks.communicator, std::move(replay))) {}

StepResult RankSteps::step(Batch& batch, int64_t step, double rate, std::span<Batch* const> ahead) {
  if (!driver_ && watch_.gradients) return step_in_halves(batch, step, rate);
  if (!driver_) return trainer_.step(batch, step, rate, ahead);
  std::vector<StepResult> made;
  driver_->step(step, [&](int64_t number, int64_t slot, double divisor) {
    made.push_back(trainer_.step_alone(batch, number, rate / divisor, slot, watch_.gradients));
    if (watch_.update) watch_.update(made.back());
  });
  StepResult result = made.size() == 1 ? made[0] : StepResult();
  const double share = 1.0 / static_cast<double>(made.size());
  for (size_t i = 0; made.size() > 1 && i < made.size(); ++i) {
    result.loss += share * made[i].loss;
    result.norm += share * made[i].norm;
    result.skipped |= made[i].skipped;
  }
  result.staleness_mean = driver_->staleness().mean();
  result.staleness_max = static_cast<double>(driver_->staleness().most);
  return result;
}

StepResult RankSteps::step_in_halves(Batch& batch, int64_t step, double rate) {
  trainer_.forward_backward(batch, step);
  watch_.gradients();
  const StepResult result = trainer_.update(step, rate);
  if (watch_.update) watch_.update(result);
  return result;
}

}  // namespace trireme
