// The states of a rank as checkpoints want them: what it has, and what it writes. A checkpoint that was saved
// under one plan is loaded under any other, because each rank reads the parts that it has, whoever wrote
// them.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "trireme/checkpoint/checkpoint.h"
#include "trireme/train/trainer.h"

namespace trireme {

struct RankStates {
  std::vector<PartView> model;      // weights and buffers
  std::vector<PartView> optimizer;  // moments and velocities, and what methods of exchange keep
  std::set<std::string> base;  // of `model`, the names of those that checkpoints leave out (ir/trained.h)
};

// All that this rank has: of a 16-bit weight two parts of one tensor, the weight's and its master's, which
// may lie otherwise. Of what other stages of a pipeline have, an empty part, so that nothing is missed.
RankStates states_of(Trainer& trainer);

// What weights that a run starts from go to: all of the model, and averages, by the names of their weights.
std::vector<PartView> starting_parts(Trainer& trainer);

// What it writes: of each part that several ranks have, one writes it, so that all write about as much.
RankStates states_to_write(Trainer& trainer, const RankOptions& ranks);

// All ranks of the plan. The communicator must outlive the result.
CheckpointPeers checkpoint_peers(const RankOptions& ranks);

// Writes the checkpoint of `state`, to which the trainer adds its weights, moments and loss scale; where
// ranks have their own, the means and, beside them, each rank's. The checkpoints' peers are those of `ranks`;
// all save together. Returns its path; throws as Checkpoints::save does.
std::string save(Checkpoints& checkpoints, TrainState state, Trainer& trainer, const RankOptions& ranks = {});

// The same in the background, as Checkpoints::begin does.
void begin_save(Checkpoints& checkpoints, TrainState state, Trainer& trainer, const RankOptions& ranks);

// Gives the trainer the weights, moments and loss scale of a checkpoint, whatever plan saved it. What a
// method of exchange keeps is of single ranks: under another number of them, or another method, it starts
// anew, and of ranks that have weights of their own all start from the means. Returns a line for people that
// says so; "" otherwise. `read_base` reads what the checkpoint leaves out, where it does.
std::string restore(Trainer& trainer, const LoadedCheckpoint& checkpoint,
                    const std::function<void()>& read_base = nullptr);

}  // namespace trireme
