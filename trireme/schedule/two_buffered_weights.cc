// PipeDream-2BW (Narayanan et al. 2021, "Memory-efficient pipeline-parallel DNN training"): 1F1B that is
// never drained, with one update for the m ≥ p microbatches of a step. All microbatches of a step are
// computed with the weights from before the last update, w(t + 1) = w(t) − lr · g(w(t − 1)): no more than two
// steps are under way, so two buffers hold all versions that anybody reads.
#include "trireme/schedule/pipeline_schedules.h"

namespace trireme {

Pipeline two_buffered_weights(const PipelineShape& shape) {
  Pipeline pipeline = one_chunk_per_stage(shape);
  const auto version = [&](int64_t microbatch) { return microbatch / shape.microbatches - 1; };
  for (int stage = 0; stage < shape.stages; ++stage) {
    const int64_t lead = shape.stages - 1 - stage;
    std::vector<ChunkTurn>& turns = pipeline.order.emplace_back();
    for (int64_t k = 0; k < shape.microbatches; ++k) {
      turns.push_back({Phase::kForward, stage, k + lead, version(k + lead)});
      turns.push_back({Phase::kBackward, stage, k, version(k)});
    }
    turns.push_back({Phase::kUpdate, stage, shape.microbatches - 1, 1});
  }
  return pipeline;
}

}  // namespace trireme
