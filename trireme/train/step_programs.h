// The Programs of a step for every rank of a plan, without a device and without weights: for who looks at
// them, counts them or times them on a clock. What is the same for all ranks is done once.
#pragma once

#include "trireme/program/build.h"
#include "trireme/train/models/model.h"
#include "trireme/train/step.h"

namespace trireme {

class StepPrograms {
 public:
  // As step_program() (trainer.h), and throws as it does.
  StepPrograms(const Model& model, const TrainOptions& train, const OptimOptions& optim,
               const StepShape& shape, const Plan& plan);

  Program rank(int rank, const WorkspaceQuery& workspace) const;

 private:
  TrainOptions train_;
  Plan plan_;
  StepGraphs whole_;
  ProgramBuilder builder_;
};

}  // namespace trireme
