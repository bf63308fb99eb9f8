// ZB-H1 (Qi et al. 2023, "Zero bubble pipeline parallelism"): 1F1B whose backward for weights waits, at stage
// i for i microbatches, so that inputs' gradients leave earlier and the waiting turns fill the end. Stage i
// has p − i microbatches between forward and backward and i between backward and weight: p on every stage.
#include "trireme/schedule/alternate.h"
#include "trireme/schedule/pipeline_schedules.h"

namespace trireme {

Pipeline zb_h1(const PipelineShape& shape) {
  Pipeline pipeline = one_chunk_per_stage(shape);
  for (int stage = 0; stage < shape.stages; ++stage)
    pipeline.order.push_back(alternate(stage, shape.microbatches, shape.stages - 1 - stage, stage));
  return pipeline;
}

}  // namespace trireme
