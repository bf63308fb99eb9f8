// The functions behind pipeline_table.h. They are called with shapes that suit them.
#pragma once

#include <optional>

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

// What most of them share: forwards and backwards of one chunk in turn.
// F 0 … F lead−1, then F k+lead, B k for every k, as long as there are such microbatches. With `lag`,
// weights' turns are apart: B k is followed by W k−lag, and the last ones come at the end. So lead + 1
// microbatches are between forward and backward at most, and lead + 1 + lag between forward and weight.
std::vector<ChunkTurn> alternate(int chunk, int64_t microbatches, int64_t lead,
                                 std::optional<int64_t> lag = {});

// Stage i has chunk i, and no turns yet.
Pipeline one_chunk_per_stage(const PipelineShape& shape);

}  // namespace trireme
