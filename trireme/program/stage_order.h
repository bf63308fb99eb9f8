// A stage's turns of a pipeline with the messages between them: what is handed to another chunk is sent as
// soon as it is made, and asked for one turn before it is needed, so that it travels while something is
// computed. Two stages see the messages from one to the other in the same order.
//
// An asynchronous pipeline is never empty between steps: what a step begins with, the one before has left. A
// message is sent and asked for in the same step, so that nothing is under way between two. Where a turn
// reads older weights than the newest, the stage keeps a copy of them from before the update.
#pragma once

#include <memory>
#include <vector>

#include "trireme/passes/stage.h"
#include "trireme/schedule/pipeline.h"

namespace trireme {

struct StageOrder {
  struct Item {
    enum class Kind {
      kRun,
      kSend,
      kReceive,
      kKeep,  // the weights as they are now, for microbatches from this one on
    } kind = Kind::kRun;
    ChunkTurn turn = {};     // of a run
    int crossing = -1;       // of a message
    int64_t microbatch = 0;  // likewise; and of weights that are kept
    int peer = -1;           // stage
    enum class Weights { kNewest, kKept } weights = Weights::kNewest;  // that a run reads
  };
  std::vector<Item> fill;   // before the first step; nothing for a synchronous pipeline
  std::vector<Item> items;  // of a step
  // Per crossing: how many microbatches of it this stage has at a time, so that number modulo slots never
  // meets one that is still needed; 0 where the stage has nothing to do with it.
  std::vector<int> slots;
  int kept = 0;  // versions of the weights beside the newest, in slots likewise
};

// The orders of all stages. What they have in common is found once: stages may be dozens, and microbatches
// hundreds.
class StageOrders {
 public:
  StageOrders(const Pipeline& pipeline, const std::vector<Crossing>& crossings);
  StageOrder of(int stage) const;

 private:
  class Orders;
  std::shared_ptr<const Orders> orders_;
};

}  // namespace trireme
