// The states of a rank as checkpoints want them: what it has, and what it writes. A checkpoint that was saved
// under one plan is loaded under any other, because each rank reads the parts that it has, whoever wrote
// them.
#pragma once

#include <vector>

#include "trireme/train/checkpoint/checkpoint.h"
#include "trireme/train/trainer.h"

namespace trireme {

struct RankStates {
  std::vector<PartView> model;      // weights and buffers
  std::vector<PartView> optimizer;  // moments and velocities
};

// All that this rank has.
RankStates states_of(Trainer& trainer);

// What it writes: of each part that several ranks have, one writes it, so that all write about as much.
RankStates states_to_write(Trainer& trainer, const RankOptions& ranks);

// All ranks of the plan. The communicator must outlive the result.
CheckpointPeers checkpoint_peers(const RankOptions& ranks);

}  // namespace trireme
