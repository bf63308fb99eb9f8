// What must hold of a Pipeline, whoever made it. (Programs that were made from it are checked again as they
// are, program/verify.h.)
#pragma once

#include <vector>

#include "trireme/schedule/pipeline.h"

namespace trireme {

struct PipelineProof {
  // Stashes that a stage has at a time at most: from a microbatch's forward on a chunk to the last phase that
  // reads what it kept, weight or else backward.
  std::vector<int64_t> live;                // of each stage, of all its chunks together
  std::vector<std::vector<int64_t>> slots;  // of each stage, of each chunk that it holds
  std::vector<int64_t> versions;            // of each stage: of its weights, that it has to keep at a time
  // Messages of one chunk and phase for which a receiver needs room at least, so that nobody waits for ever
  // even if a sender does nothing before its message has a place there (play.h).
  int64_t buffers = 1;
};

// Throws Error, with the stage and the turn, unless
//  - every phase of every chunk and microbatch is done exactly once, by a stage that holds the chunk, all
//  phases
//    by the same one, forward before backward before weight;
//  - microbatches of a chunk ascend in every phase on every stage;
//  - all turns can be done in the order of their stages;
//  - weights are read in versions that are there, by all phases of a microbatch in the same one, and each
//  update
//    makes the next, of the gradients up to its microbatch.
// An asynchronous schedule is seen over as many steps as it takes until all is under way, and one more.
PipelineProof verify(const Pipeline& pipeline);

// How many microbatches of each of its chunks a stage keeps at a moment.
struct LiveMoment {
  std::vector<int64_t> before_backward;  // from their forward on
  std::vector<int64_t> before_weight;    // from their backward on, where weights have turns of their own
  friend auto operator<=>(const LiveMoment&, const LiveMoment&) = default;
};
// Of each stage, all that are different, of a pipeline that is known to be right.
std::vector<std::vector<LiveMoment>> live_moments(const Pipeline& pipeline);

}  // namespace trireme
