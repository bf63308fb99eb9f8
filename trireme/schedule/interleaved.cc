// Interleaved 1F1B (Narayanan et al. 2021): stage i has the chunks i, i + p, i + 2p, …; a microbatch goes
// round v times, and filling the pipeline takes a v-th of the time. A stage takes p microbatches of a chunk
// in a row, then p of its next chunk; backwards in the same manner from its last chunk. Over this list of m·v
// pieces it does one forward for one backward, ahead by what is still to come back when its first gradient
// arrives.
#include <algorithm>

#include "trireme/schedule/pipeline_schedules.h"

namespace trireme {

Pipeline interleaved(const PipelineShape& shape) {
  const int stages = shape.stages, v = shape.chunks_per_stage;
  const int64_t microbatches = shape.microbatches;
  Pipeline pipeline{microbatches, stages * v, {}, {}};
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<int>& chunks = pipeline.holds.emplace_back();
    for (int round = 0; round < v; ++round) chunks.push_back(stage + round * stages);
    const auto piece = [&](Phase phase, int64_t k) {
      const int64_t round = k / stages % v;
      return ChunkTurn{phase, phase == Phase::kForward ? chunks[round] : chunks[v - 1 - round],
                       k / (stages * v) * stages + k % stages};
    };
    std::vector<ChunkTurn>& turns = pipeline.order.emplace_back();
    const int64_t pieces = microbatches * v;
    const int64_t lead = std::min<int64_t>(2 * (stages - 1 - stage) + (v - 1) * stages, pieces);
    for (int64_t k = 0; k < lead; ++k) turns.push_back(piece(Phase::kForward, k));
    for (int64_t k = 0; k < pieces; ++k) {
      if (k + lead < pieces) turns.push_back(piece(Phase::kForward, k + lead));
      turns.push_back(piece(Phase::kBackward, k));
    }
  }
  return pipeline;
}

}  // namespace trireme
