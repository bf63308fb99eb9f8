// See step_programs.h.
#include "trireme/train/step_programs.h"

#include <utility>

#include "trireme/base/error.h"
#include "trireme/ops/table.h"
#include "trireme/passes/channels_last.h"
#include "trireme/passes/join_maps.h"
#include "trireme/runtime/executor.h"
#include "trireme/train/trainer.h"

namespace trireme {

namespace {

std::shared_ptr<const SpreadStep> spread_step(const Model& model, const TrainOptions& train,
                                              const OptimOptions& optim, const StepShape& shape,
                                              const Plan& plan,
                                              std::span<const std::shared_ptr<const SpreadStep>> before) {
  const Schedule schedule = schedule_of(train, plan);
  StepGraphs whole = step_graphs(model, train, optim, shape, schedule, plan);
  return std::make_shared<const SpreadStep>(std::move(whole.segments), plan, schedule.microbatches,
                                            std::move(whole.cut), before);
}

}  // namespace

StepPrograms::StepPrograms(const Model& model, const TrainOptions& train, const OptimOptions& optim,
                           const StepShape& shape, const Plan& plan,
                           std::span<const std::shared_ptr<const SpreadStep>> before)
    : StepPrograms(spread_step(model, train, optim, shape, plan, before), train, plan) {}

StepPrograms::StepPrograms(std::shared_ptr<const SpreadStep> spread, const TrainOptions& train,
                           const Plan& plan)
    : train_(train),
      plan_(plan),
      spread_(std::move(spread)),
      builder_(spread_, plan, schedule_of(train, plan).microbatches) {}

Program StepPrograms::rank(int rank, const WorkspaceQuery& workspace) const {
  if (rank < 0 || rank >= plan_.mesh.ranks())
    throw_error("rank {} of a plan with {} ranks ('{}'); 0 to {} expected", rank, plan_.mesh.ranks(),
                to_string(plan_.mesh), plan_.mesh.ranks() - 1);
  return builder_.build(rank, schedule_of(train_, plan_, rank), workspace);
}

Program StepPrograms::rank(int rank, const Device* device) const {
  if (!device) return this->rank(rank, kNoWorkspace);
  Program program = this->rank(rank, workspace_query(*device));
  const GainQuery gains = gain_query(*device);
  const GroupQuery groups = group_query(*device);
  if (!gains && !groups) return program;
  std::vector<Graph> graphs;
  for (const Segment& segment : program.segments) {
    Graph& graph = graphs.emplace_back(segment.graph);
    if (gains) {
      graph = fused_for_device(with_channels_last(graph, ops(), gains), ops(), gains);
      graph = join_maps(graph, ops(), gains);
    }
    if (groups) graph = gathered(graph, groups);
  }
  return with_graphs(program, std::move(graphs), workspace_query(*device));
}

std::unique_ptr<Device> device_here(const TrainOptions& train, int threads) {
  if (train.device == "cpu") return make_cpu_device(threads);
  if (cuda_device_count() == 0) return nullptr;
  return make_device({.kind = train.device, .f32_products = f32_products_of(train)});
}

}  // namespace trireme
