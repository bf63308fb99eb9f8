// How a rank of any plan makes its steps: in step with the others, or as messages come, as its agreement says
// (exchange/agreement_record.h). A Trainer alone makes those in step.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "trireme/runtime/arrivals.h"
#include "trireme/train/trainer.h"

namespace trireme {

class RankSteps {
 public:
  // `first` steps are done, of `steps`, on all ranks. The trainer may have a plan of its own, as that of a
  // server does. `replay`: for a rank that goes by arrivals. All that is given outlives it.
  RankSteps(const RankOptions& ranks, Trainer& trainer, int64_t first, int64_t steps,
            std::optional<ArrivalOrder> replay = {});

  // As Trainer::step(). Of a server, means over its updates of the step.
  StepResult step(Batch& batch, int64_t step, double rate, std::span<Batch* const> ahead = {});
  ArrivalDriver* arrivals() const { return driver_.get(); }  // null for a rank that does not go by them

  // For callers that look at results: called when gradients are there, and after each update. A server makes
  // several updates in a step.
  struct Watch {
    std::function<void()> gradients;
    std::function<void(const StepResult& of_update)> update = nullptr;
  };
  void watch(Watch watch) { watch_ = std::move(watch); }

 private:
  StepResult step_in_halves(Batch& batch, int64_t step, double rate);

  Trainer& trainer_;
  Watch watch_;
  const std::unique_ptr<ArrivalDriver> driver_;
};

}  // namespace trireme
