// See timeline.h.
#include "trireme/schedule/timeline.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/schedule/play.h"

namespace trireme {
namespace {

double duration(const ChunkTimes& times, Phase phase, bool split) {
  switch (phase) {
    case Phase::kForward:
      return times.forward;
    case Phase::kBackward:
      return times.backward + (split ? 0 : times.weight);
    case Phase::kWeight:
      return times.weight;
    case Phase::kUpdate:
      return times.update;
  }
  return 0;
}

void sum_up(Timeline& line) {
  double work = 0;
  for (const std::vector<TimedTurn>& turns : line.stages) {
    if (turns.empty()) continue;
    for (const TimedTurn& turn : turns) work += turn.end - turn.start;
    line.end = std::max(line.end, turns.back().end);
    line.step = std::max(line.step, turns.back().end - turns.front().start);
  }
  const double all = static_cast<double>(line.stages.size()) * line.step;
  if (all > 0) line.bubble = (all - work) / all;
}

}  // namespace

ChunkTimes per_chunk(const ChunkTimes& times, const Pipeline& pipeline) {
  const double share = pipeline.stages() / static_cast<double>(pipeline.chunks);
  return {times.forward * share, times.backward * share, times.weight * share, times.update * share};
}

Timeline timeline(const Pipeline& pipeline, const TurnTimes& times) {
  if (times.chunks.size() != 1 && times.chunks.size() != static_cast<size_t>(pipeline.chunks))
    throw_error("times of {} chunks; the pipeline has {}", times.chunks.size(), pipeline.chunks);
  const bool split = has_phase(pipeline, Phase::kWeight);
  const TurnPlaces places(pipeline);
  Timeline line;
  line.stages.resize(pipeline.order.size());
  const auto done = play(pipeline, places, kUnbounded, [&](int stage, const ChunkTurn& turn) {
    std::vector<TimedTurn>& turns = line.stages[stage];
    TimedTurn timed{turn, turns.empty() ? 0 : turns.back().end};
    if (const auto needed = waits_for(pipeline, turn)) {
      const TurnPlaces::Place& from = places.of(*needed);
      timed.start = std::max(
          timed.start, line.stages[from.stage][from.index].end + (from.stage == stage ? 0 : times.message));
    }
    timed.end =
        timed.start + duration(times.chunks[times.chunks.size() == 1 ? 0 : turn.chunk], turn.phase, split);
    if (!turns.empty()) {
      const bool freed = turns.back().turn.phase == (split ? Phase::kWeight : Phase::kBackward);
      timed.live = turns.back().live - (freed ? 1 : 0);
    }
    if (turn.phase == Phase::kForward) ++timed.live;
    turns.push_back(timed);
  });
  for (size_t stage = 0; stage < done.size(); ++stage) {
    if (done[stage] < pipeline.order[stage].size())
      throw_error("stage {} waits for ever before {}", stage, to_string(pipeline.order[stage][done[stage]]));
  }
  sum_up(line);
  return line;
}

}  // namespace trireme
