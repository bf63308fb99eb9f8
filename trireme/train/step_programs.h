// The Programs of a step for every rank of a plan, without weights: for callers that show, count or time
// them. What is the same for all ranks is done once.
#pragma once

#include <memory>
#include <span>

#include "trireme/models/model.h"
#include "trireme/program/build.h"
#include "trireme/runtime/device.h"
#include "trireme/train/step.h"

namespace trireme {

class StepPrograms {
 public:
  // As step_program() (trainer.h), and throws as it does. `before`: see SpreadStep.
  StepPrograms(const Model& model, const TrainOptions& train, const OptimOptions& optim,
               const StepShape& shape, const Plan& plan,
               std::span<const std::shared_ptr<const SpreadStep>> before = {});
  // Of a step that was spread for another plan, and serves this one. `train` is what it was made with.
  StepPrograms(std::shared_ptr<const SpreadStep> spread, const TrainOptions& train, const Plan& plan);

  const std::shared_ptr<const SpreadStep>& spread() const { return spread_; }

  // Throws Error for a rank that the plan does not have.
  Program rank(int rank, const WorkspaceQuery& workspace) const;
  // As this device runs it: with the temporary memory that its kernels want, and nodes joined that it does at
  // less cost as one. Null, where there is none to ask: as the plan has it, without temporary memory.
  Program rank(int rank, const Device* device) const;
  const Cut& cut() const { return spread_->cut; }  // of the model, where the plan has a pipeline

 private:
  TrainOptions train_;
  Plan plan_;
  std::shared_ptr<const SpreadStep> spread_;
  ProgramBuilder builder_;
};

// The device of the settings, for StepPrograms::rank(); null where this machine has none.
std::unique_ptr<Device> device_here(const TrainOptions& train, int threads);

}  // namespace trireme
