// 1F1B (PipeDream-flush, DAPPLE): a stage is as many forwards ahead of its backwards as there are stages
// behind it, and then does one of each. As long as GPipe, with p − i stashes at stage i instead of m.
#include "trireme/schedule/alternate.h"
#include "trireme/schedule/pipeline_schedules.h"

namespace trireme {

Pipeline one_forward_one_backward(const PipelineShape& shape) {
  Pipeline pipeline = one_chunk_per_stage(shape);
  for (int stage = 0; stage < shape.stages; ++stage)
    pipeline.order.push_back(alternate(stage, shape.microbatches, shape.stages - 1 - stage));
  return pipeline;
}

}  // namespace trireme
