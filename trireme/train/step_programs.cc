// See step_programs.h.
#include "trireme/train/step_programs.h"

#include <utility>

namespace trireme {

StepPrograms::StepPrograms(const Model& model, const TrainOptions& train, const OptimOptions& optim,
                           const StepShape& shape, const Plan& plan)
    : train_(train),
      plan_(plan),
      whole_(step_graphs(model, train, optim, shape, schedule_of(train, plan), plan)),
      builder_(std::exchange(whole_.segments, {}), plan, schedule_of(train, plan).microbatches, whole_.cut) {}

Program StepPrograms::rank(int rank, const WorkspaceQuery& workspace) const {
  return builder_.build(rank, schedule_of(train_, plan_, rank), workspace);
}

}  // namespace trireme
