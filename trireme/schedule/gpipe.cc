// GPipe (Huang et al. 2019): a stage computes all forwards, then all backwards. Every stage keeps the stashes
// of all microbatches. Backwards ascend here, where the paper's descend: it is as fast, and adds up as one
// rank does.
#include "trireme/schedule/alternate.h"
#include "trireme/schedule/pipeline_schedules.h"

namespace trireme {

Pipeline gpipe(const PipelineShape& shape) {
  Pipeline pipeline = one_chunk_per_stage(shape);
  for (int stage = 0; stage < shape.stages; ++stage)
    pipeline.order.push_back(alternate(stage, shape.microbatches, shape.microbatches));
  return pipeline;
}

}  // namespace trireme
