// PipeDream (Narayanan et al. 2019): 1F1B that is never drained; a stage updates its weights after every
// backward. A microbatch's backward reads the weights that its forward read, so versions are stashed: those
// of the microbatches under way. With vertical sync a microbatch is computed with the same version on all
// stages, that which the first stage had when it began.
#include "trireme/schedule/pipeline_schedules.h"

namespace trireme {

Pipeline pipedream(const PipelineShape& shape) {
  Pipeline pipeline = one_chunk_per_stage(shape);
  for (int stage = 0; stage < shape.stages; ++stage) {
    const int64_t lead = shape.stages - 1 - stage;
    const int64_t delay = shape.versions == PipelineShape::Versions::kNewest ? lead : shape.stages - 1;
    std::vector<ChunkTurn>& turns = pipeline.order.emplace_back();
    for (int64_t k = 0; k < shape.microbatches; ++k) {
      turns.push_back({Phase::kForward, stage, k + lead, k + lead - delay});
      turns.push_back({Phase::kBackward, stage, k, k - delay});
      turns.push_back({Phase::kUpdate, stage, k, k + 1});
    }
  }
  return pipeline;
}

}  // namespace trireme
