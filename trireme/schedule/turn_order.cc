// See turn_order.h.
#include "trireme/schedule/turn_order.h"

#include <algorithm>
#include <map>

#include "trireme/base/error.h"
#include "trireme/schedule/play.h"

namespace trireme {

TurnOrder::TurnOrder(const Pipeline& pipeline) : stages_(pipeline.stages()) {
  TRIREME_CHECK((!is_asynchronous(pipeline)));
  const TurnPlaces places(pipeline);
  std::vector<std::vector<int>> numbers(pipeline.order.size());  // of the turns of each stage, in turns_
  std::map<std::pair<int, int>, int> wires;
  size_t all = 0;
  for (const std::vector<ChunkTurn>& order : pipeline.order) all += order.size();
  turns_.reserve(all);
  play(pipeline, places, kUnbounded, [&](int stage, const ChunkTurn& turn) {
    Turn one{stage, turn.phase, turn.chunk};
    if (const auto needed = waits_for(pipeline, turn)) {
      const TurnPlaces::Place& from = places.of(*needed);
      one.needs = numbers[from.stage][from.index];
      if (from.stage != stage)
        one.wire = wires.try_emplace({from.stage, stage}, static_cast<int>(wires.size())).first->second;
    }
    numbers[stage].push_back(static_cast<int>(turns_.size()));
    turns_.push_back(one);
  });
  TRIREME_CHECK(turns_.size() == all);
  wires_ = static_cast<int>(wires.size());
}

TurnOrder::Ends TurnOrder::timed(std::span<const ChunkSeconds> chunks, Wires wires) const {
  Ends ends{std::vector<double>(stages_, -1), std::vector<double>(stages_)};
  std::vector<double> end(turns_.size()), wire_free(wires_);
  for (size_t t = 0; t < turns_.size(); ++t) {
    const Turn& turn = turns_[t];
    double& now = ends.last[turn.stage];
    const ChunkSeconds& chunk = chunks[turn.chunk];
    double begin = now;
    if (turn.needs >= 0) {
      double there = end[turn.needs];
      if (turn.wire >= 0) {
        const bool forward = turn.phase == Phase::kForward;
        const ChunkSeconds& between = forward ? chunks[turn.chunk - 1] : chunk;
        double& wire = wire_free[turn.wire];
        if (wires == Wires::kInTurn) there = std::max(there, wire);
        wire = there + (forward ? between.ahead : between.back);
        there = wire + between.latency;
      }
      begin = std::max(begin, there);
    }
    if (ends.first[turn.stage] < 0) ends.first[turn.stage] = begin;
    now = end[t] = begin + (turn.phase == Phase::kForward    ? chunk.forward
                            : turn.phase == Phase::kBackward ? chunk.backward
                                                             : chunk.weight);
  }
  return ends;
}

}  // namespace trireme
