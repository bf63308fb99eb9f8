// See play.h.
#include "trireme/schedule/play.h"

namespace trireme {

TurnPlaces::TurnPlaces(const Pipeline& pipeline)
    : microbatches_(pipeline.microbatches),
      chunks_(pipeline.chunks),
      places_(static_cast<size_t>(4 * pipeline.chunks * pipeline.microbatches)) {
  for (int stage = 0; stage < pipeline.stages(); ++stage) {
    const std::vector<ChunkTurn>& order = pipeline.order[stage];
    for (size_t i = 0; i < order.size(); ++i) of(order[i]) = {stage, i};
  }
}

size_t TurnPlaces::number(const ChunkTurn& turn) const {
  return static_cast<size_t>((static_cast<int64_t>(turn.phase) * chunks_ + turn.chunk) * microbatches_ +
                             turn.microbatch);
}

std::optional<ChunkTurn> waits_for(const Pipeline& pipeline, const ChunkTurn& turn) {
  const auto [phase, chunk, microbatch, version] = turn;
  switch (phase) {
    case Phase::kForward:
      if (chunk == 0) return std::nullopt;
      return ChunkTurn{phase, chunk - 1, microbatch};
    case Phase::kBackward:
      if (chunk + 1 == pipeline.chunks) return ChunkTurn{Phase::kForward, chunk, microbatch};
      return ChunkTurn{phase, chunk + 1, microbatch};
    case Phase::kWeight:
      return ChunkTurn{Phase::kBackward, chunk, microbatch};
    case Phase::kUpdate:
      break;  // of what the stage did before
  }
  return std::nullopt;
}

std::optional<ChunkTurn> awaited_by(const Pipeline& pipeline, const ChunkTurn& turn) {
  const auto [phase, chunk, microbatch, version] = turn;
  if (phase == Phase::kForward && chunk + 1 < pipeline.chunks) return ChunkTurn{phase, chunk + 1, microbatch};
  if (phase == Phase::kBackward && chunk > 0) return ChunkTurn{phase, chunk - 1, microbatch};
  return std::nullopt;
}

std::vector<size_t> play(const Pipeline& pipeline, const TurnPlaces& places, int64_t buffers,
                         const std::function<void(int, const ChunkTurn&)>& done) {
  const auto stages = static_cast<size_t>(pipeline.stages());
  std::vector<size_t> at(stages);      // turns done
  std::vector<size_t> handed(stages);  // of them, those whose message the receiver has
  std::vector<int64_t> waiting(stages * 2 * static_cast<size_t>(pipeline.chunks));
  const auto waiting_for = [&](int stage, const ChunkTurn& turn) -> int64_t& {
    return waiting[(2 * stage + (turn.phase == Phase::kForward ? 0 : 1)) * pipeline.chunks + turn.chunk];
  };
  const auto hand_over = [&](int stage, const ChunkTurn& turn) {
    const auto next = awaited_by(pipeline, turn);
    if (!next) return true;
    const int to = places.of(*next).stage;
    if (to == stage || to < 0) return true;
    int64_t& there = waiting_for(to, turn);
    if (buffers != kUnbounded && there >= buffers) return false;
    ++there;
    return true;
  };
  const auto begin = [&](int stage, const ChunkTurn& turn) {
    const auto before = waits_for(pipeline, turn);
    if (!before) return true;
    const TurnPlaces::Place& place = places.of(*before);
    if (place.stage < 0 || handed[place.stage] <= place.index) return false;
    if (place.stage != stage) --waiting_for(stage, *before);
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t s = 0; s < stages; ++s) {
      const std::vector<ChunkTurn>& order = pipeline.order[s];
      const int stage = static_cast<int>(s);
      while (true) {
        if (handed[s] < at[s]) {
          if (!hand_over(stage, order[handed[s]])) break;
          ++handed[s];
        } else {
          if (at[s] == order.size() || !begin(stage, order[at[s]])) break;
          done(stage, order[at[s]++]);
        }
        moved = true;
      }
    }
  }
  return at;
}

}  // namespace trireme
