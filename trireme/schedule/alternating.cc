// The schedules of one chunk a stage that differ in two numbers alone: how many forwards a stage is ahead of
// its backwards, and by how many backwards its turns for weights come later, where they are apart.
#include <functional>

#include "trireme/schedule/pipeline_schedules.h"

namespace trireme {

std::vector<ChunkTurn> alternate(int chunk, int64_t microbatches, int64_t lead, std::optional<int64_t> lag) {
  std::vector<ChunkTurn> turns;
  const auto add = [&](Phase phase, int64_t microbatch) {
    if (microbatch >= 0 && microbatch < microbatches) turns.push_back({phase, chunk, microbatch});
  };
  for (int64_t k = 0; k < lead; ++k) add(Phase::kForward, k);
  for (int64_t k = 0; k < microbatches + lag.value_or(0); ++k) {
    add(Phase::kForward, k + lead);
    add(Phase::kBackward, k);
    if (lag) add(Phase::kWeight, k - *lag);
  }
  return turns;
}

Pipeline one_chunk_per_stage(const PipelineShape& shape) {
  Pipeline pipeline{shape.microbatches, shape.stages, {}, {}};
  for (int stage = 0; stage < shape.stages; ++stage) pipeline.holds.push_back({stage});
  return pipeline;
}

namespace {

using OfStage = std::function<int64_t(int stage)>;

Pipeline alternating(const PipelineShape& shape, const OfStage& lead, const OfStage& lag = nullptr) {
  Pipeline pipeline = one_chunk_per_stage(shape);
  for (int stage = 0; stage < shape.stages; ++stage)
    pipeline.order.push_back(
        alternate(stage, shape.microbatches, lead(stage), lag ? std::optional(lag(stage)) : std::nullopt));
  return pipeline;
}

}  // namespace

// GPipe (Huang et al. 2019): a stage computes all forwards, then all backwards. Every stage keeps the stashes
// of all microbatches. Backwards ascend here, where the paper's descend: it is as fast, and adds up as one
// rank does.
Pipeline gpipe(const PipelineShape& shape) {
  return alternating(shape, [&](int) { return shape.microbatches; });
}

// 1F1B (PipeDream-flush, DAPPLE): a stage is as many forwards ahead of its backwards as there are stages
// behind it, and then does one of each. As long as GPipe, with p − i stashes at stage i instead of m.
Pipeline one_forward_one_backward(const PipelineShape& shape) {
  return alternating(shape, [&](int stage) { return shape.stages - 1 - stage; });
}

// ZB-H1 (Qi et al. 2023, "Zero bubble pipeline parallelism"): 1F1B whose backward for weights waits, at stage
// i for i microbatches, so that inputs' gradients leave earlier and the waiting turns fill the end. Stage i
// has p − i microbatches between forward and backward and i between backward and weight: p on every stage.
Pipeline zb_h1(const PipelineShape& shape) {
  return alternating(
      shape, [&](int stage) { return shape.stages - 1 - stage; }, [](int stage) { return stage; });
}

// ZB-H2: ZB-H1 with twice the lead and twice the lag. A stage forwards until its first gradient is back, and
// no bubble is left where the three phases take equal times; 2p − 1 stashes on every stage. Stages begin and
// end one after the other: the bubble is gone only if the next step begins without waiting for all.
Pipeline zb_h2(const PipelineShape& shape) {
  return alternating(
      shape, [&](int stage) { return 2 * (shape.stages - 1 - stage); }, [](int stage) { return 2 * stage; });
}

}  // namespace trireme
