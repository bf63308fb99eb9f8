// See alternate.h.
#include "trireme/schedule/alternate.h"

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

}  // namespace trireme
