// When a pipeline's turns begin and end, if every turn begins as soon as its stage is free and what it needs
// has come. Read by viewers and tests; a prediction of a step's time.
#pragma once

#include <vector>

#include "trireme/schedule/pipeline.h"

namespace trireme {

// In seconds, or in whatever unit one likes.
struct ChunkTimes {
  double forward = 1;
  double backward =
      1;  // for inputs; where weights have no turns of their own, a backward takes their time too
  double weight = 1;
  double update = 0;
};

struct TurnTimes {
  std::vector<ChunkTimes> chunks = {{}};  // of each chunk; one that is alone is for all
  double message = 0;                     // from the end of a turn to when another stage has what it made
};

// `times`, with each phase shared evenly by the chunks of a stage: to compare schedules for one model.
ChunkTimes per_chunk(const ChunkTimes& times, const Pipeline& pipeline);

struct TimedTurn {
  ChunkTurn turn;
  double start = 0, end = 0;
  int64_t live = 0;  // stashes on the stage while it lasts, of all its chunks
};

struct Timeline {
  std::vector<std::vector<TimedTurn>> stages;
  double end = 0;  // of the last turn; the first begins at 0
  // The longest time between a stage's first turn and its last. A step takes so long if each stage goes on to
  // the next one by itself. Only zb_h2 and zb_v have stages that begin late and end late, for which `end` is
  // more.
  double step = 0;
  // The share of `step` in which stages do nothing, on average: (step − work) / step for equal stages, as the
  // papers on these schedules have it.
  double bubble = 0;
  // The same time as a share of the work instead, which is the step that there would be without it.
  double bubble_of_work() const { return bubble / (1 - bubble); }
};

// Of the turns that are there: asynchronous schedules are unrolled before (pipeline.h). Throws Error where
// turns wait for ever; verify() says why.
Timeline timeline(const Pipeline& pipeline, const TurnTimes& times);

}  // namespace trireme
