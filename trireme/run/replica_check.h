// Whether ranks that have the same states have the same numbers in them. They do by construction; a rank with
// a broken memory, another data file than it began with, or a mistake of ours would part from the others
// silently, and a checkpoint would be mixed from both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/train/trainer.h"

namespace trireme {

class ReplicaCheck {
 public:
  // Trainer and communicator must outlive it.
  ReplicaCheck(Trainer& trainer, const RankOptions& ranks);

  // Compares hashes of weights, buffers and optimizer states along every axis of the mesh that does not split
  // them. Throws an Error on all ranks when some differ, with tensors and ranks. `step`: how many are
  // done. Collective; reads the states once and allocates nothing while they are equal.
  void compare(int64_t step);

 private:
  struct State {
    std::string name;
    size_t bytes;
    std::vector<bool> along;  // per axis of the mesh: whether ranks along it have the same part
  };
  uint64_t hash(const State& state);
  void gather(uint64_t own);  // every rank's own word into words_
  [[noreturn]] void explain(int64_t step);
  std::string difference(size_t state);
  size_t most_states();  // of any rank
  int stage_of(int rank) const;
  int first_of_stage() const;  // the first rank of this rank's

  Executor& executor_;
  RankOptions ranks_;
  std::vector<State> states_;
  std::vector<std::byte> piece_;               // of a state, on its way
  std::vector<uint64_t> hashes_;               // per state
  std::string parts_axis_;                     // Plan::parts_axis_name()
  std::vector<int64_t> words_;                 // per rank
  std::vector<std::vector<int>> first_along_;  // per axis and rank: the first rank of its line along the axis
};

}  // namespace trireme
