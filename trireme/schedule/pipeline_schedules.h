// The functions behind pipeline_table.h. They are called with shapes that suit them.
#pragma once

#include "trireme/schedule/pipeline.h"

namespace trireme {

Pipeline gpipe(const PipelineShape& shape);
Pipeline one_forward_one_backward(const PipelineShape& shape);
Pipeline interleaved(const PipelineShape& shape);
Pipeline chimera(const PipelineShape& shape);
Pipeline zb_h1(const PipelineShape& shape);
Pipeline zb_h2(const PipelineShape& shape);
Pipeline zb_v(const PipelineShape& shape);
Pipeline pipedream(const PipelineShape& shape);
Pipeline two_buffered_weights(const PipelineShape& shape);

}  // namespace trireme
