// Goes through a pipeline's turns in an order in which all of them can be done. Internal to schedule/.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "trireme/schedule/pipeline.h"

namespace trireme {

// Where every turn stands, by what it is.
class TurnPlaces {
 public:
  struct Place {
    int stage = -1;  // −1: there is no such turn
    size_t index = 0;
  };
  explicit TurnPlaces(const Pipeline& pipeline);

  Place& of(const ChunkTurn& turn) { return places_.at(number(turn)); }
  const Place& of(const ChunkTurn& turn) const { return places_.at(number(turn)); }

 private:
  size_t number(const ChunkTurn& turn) const;

  int64_t microbatches_;
  int chunks_;
  std::vector<Place> places_;
};

// What a turn waits for: the same phase of the chunk before it (backwards: behind it), or the phase before
// it.
std::optional<ChunkTurn> waits_for(const Pipeline& pipeline, const ChunkTurn& turn);
// What waits for it on another chunk: where its message goes, if to another stage.
std::optional<ChunkTurn> awaited_by(const Pipeline& pipeline, const ChunkTurn& turn);

constexpr int64_t kUnbounded = -1;

// Every stage does its turns in order, as far as it can. A turn's message is handed over when the receiver
// has fewer than `buffers` messages of this chunk and phase that its turns have not taken yet; until then the
// sender does nothing else, so the messages of every ordered pair of stages stay in order. Calls `done` for
// each turn and returns how many each stage came to do: all of them, or it waits for ever.
std::vector<size_t> play(const Pipeline& pipeline, const TurnPlaces& places, int64_t buffers,
                         const std::function<void(int stage, const ChunkTurn& turn)>& done);

}  // namespace trireme
