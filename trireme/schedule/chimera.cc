// Chimera (Li and Hoefler 2021): one pipeline from stage 0 to p − 1 for the even microbatches and one from
// p − 1 to 0 for the odd ones; each fills the other's bubbles, and every chunk is held twice. In units of a
// turn, the j-th microbatch of a pipeline is at its i-th stage at
//
//   forward   i + 2j              backward   2p − 1 − i + 2j
//
// for the first p/2 of them; the next p/2 come 2p later. Forwards of the one direction and backwards of the
// other share the odd (or even) times of a stage, but never at once, so no two turns fall on one time for an
// even p. A stage does its turns in the order of these times.
#include <algorithm>

#include "trireme/schedule/pipeline_schedules.h"

namespace trireme {

Pipeline chimera(const PipelineShape& shape) {
  const auto [stages, microbatches, _, versions] = shape;
  Pipeline pipeline{microbatches, stages, {}, {}};
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<std::pair<int64_t, ChunkTurn>> timed;
    for (int64_t microbatch = 0; microbatch < microbatches; ++microbatch) {
      const int chunk = microbatch % 2 == 0 ? stage : stages - 1 - stage;  // also its place in that pipeline
      const int64_t unit = microbatch / stages, j = microbatch % stages / 2;
      const int64_t begin = 2 * stages * unit + 2 * j;
      timed.emplace_back(begin + chunk, ChunkTurn{Phase::kForward, chunk, microbatch});
      timed.emplace_back(begin + 2 * stages - 1 - chunk, ChunkTurn{Phase::kBackward, chunk, microbatch});
    }
    std::ranges::sort(timed, {}, &std::pair<int64_t, ChunkTurn>::first);
    pipeline.holds.push_back({stage, stages - 1 - stage});
    std::vector<ChunkTurn>& turns = pipeline.order.emplace_back();
    for (const auto& [time, turn] : timed) turns.push_back(turn);
  }
  return pipeline;
}

}  // namespace trireme
