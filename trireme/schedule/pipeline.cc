// See pipeline.h.
#include "trireme/schedule/pipeline.h"

#include <fmt/format.h>

#include <algorithm>

namespace trireme {

std::string_view name(Phase phase) {
  switch (phase) {
    case Phase::kForward:
      return "forward";
    case Phase::kBackward:
      return "backward";
    case Phase::kWeight:
      return "weight";
    case Phase::kUpdate:
      return "update";
  }
  return "?";
}

std::string to_string(const ChunkTurn& turn) {
  return fmt::format("{} of chunk {}, microbatch {}", name(turn.phase), turn.chunk, turn.microbatch);
}

Pipeline one_stage(int chunks, int64_t microbatches) {
  Pipeline pipeline{.microbatches = microbatches, .chunks = chunks, .holds = {{}}, .order = {{}}};
  for (int chunk = 0; chunk < chunks; ++chunk) pipeline.holds[0].push_back(chunk);
  for (int64_t microbatch = 0; microbatch < microbatches; ++microbatch) {
    for (int chunk = 0; chunk < chunks; ++chunk)
      pipeline.order[0].push_back({Phase::kForward, chunk, microbatch});
    for (int chunk = chunks; chunk-- > 0;) pipeline.order[0].push_back({Phase::kBackward, chunk, microbatch});
  }
  return pipeline;
}

Unrolled unroll_with_begins(const Pipeline& pipeline, int64_t steps) {
  Unrolled result{{pipeline.microbatches * steps, pipeline.chunks, pipeline.holds, {}}, {}};
  Pipeline& whole = result.whole;
  for (const std::vector<ChunkTurn>& order : pipeline.order) {
    int64_t ahead = 0;  // steps from which it takes microbatches before their time
    std::vector<int64_t> updates(static_cast<size_t>(pipeline.chunks));
    for (const ChunkTurn& turn : order) {
      ahead = std::max(ahead, turn.microbatch / pipeline.microbatches);
      if (turn.phase == Phase::kUpdate) ++updates.at(turn.chunk);
    }
    std::vector<ChunkTurn>& turns = whole.order.emplace_back();
    std::vector<int>& begins = result.begins.emplace_back();
    for (int64_t step = -ahead; step < steps; ++step) {
      if (step >= 0) begins.push_back(static_cast<int>(turns.size()));
      for (ChunkTurn turn : order) {
        turn.microbatch += step * pipeline.microbatches;
        turn.version = std::max<int64_t>(0, turn.version + step * updates.at(turn.chunk));
        if (turn.microbatch >= 0 && turn.microbatch < whole.microbatches) turns.push_back(turn);
      }
    }
    begins.push_back(static_cast<int>(turns.size()));
  }
  return result;
}

bool has_phase(const Pipeline& pipeline, Phase phase) {
  return std::ranges::any_of(pipeline.order, [&](const std::vector<ChunkTurn>& order) {
    return std::ranges::find(order, phase, &ChunkTurn::phase) != order.end();
  });
}

}  // namespace trireme
