// ZB-H2 (Qi et al. 2023): ZB-H1 with twice the lead and twice the lag. A stage forwards until its first
// gradient is back, and no bubble is left where the three phases take equal times; 2p − 1 stashes on every
// stage. Stages begin and end one after the other: the bubble is gone only if the next step begins without
// waiting for all.
#include "trireme/schedule/alternate.h"
#include "trireme/schedule/pipeline_schedules.h"

namespace trireme {

Pipeline zb_h2(const PipelineShape& shape) {
  Pipeline pipeline = one_chunk_per_stage(shape);
  for (int stage = 0; stage < shape.stages; ++stage)
    pipeline.order.push_back(alternate(stage, shape.microbatches, 2 * (shape.stages - 1 - stage), 2 * stage));
  return pipeline;
}

}  // namespace trireme
