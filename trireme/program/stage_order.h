// A stage's turns of a pipeline with the messages between them: what is handed to another chunk is sent as
// soon as it is made, and asked for one turn before it is needed, so that it travels while something is
// computed. Two stages see the messages from one to the other in the same order.
#pragma once

#include <vector>

#include "trireme/passes/stage.h"
#include "trireme/schedule/pipeline.h"

namespace trireme {

struct StageOrder {
  struct Item {
    enum class Kind { kRun, kSend, kReceive } kind = Kind::kRun;
    ChunkTurn turn = {};     // of a run
    int crossing = -1;       // of a message
    int64_t microbatch = 0;  // likewise
    int peer = -1;           // stage
  };
  std::vector<Item> items;
  // Per crossing: how many microbatches of it this stage has at a time, so that number modulo slots never
  // meets one that is still needed; 0 where the stage has nothing to do with it.
  std::vector<int> slots;
};
StageOrder stage_order(const Pipeline& pipeline, const std::vector<Crossing>& crossings, int stage);

}  // namespace trireme
