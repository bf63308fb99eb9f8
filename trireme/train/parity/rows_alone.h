// Where replicas compute by themselves: the batch that one rank alone is given to make what a replica makes
// of its rows.
#pragma once

#include <set>
#include <vector>

#include "trireme/base/part.h"
#include "trireme/plan/plan.h"
#include "trireme/train/parity/reference.h"

namespace trireme::parity {

class RowsAlone {
 public:
  explicit RowsAlone(size_t replicas) : rows_(replicas) {}

  // The rows of one of a replica's ranks, by microbatch (Trainer::own_rows()).
  void note(size_t replica, const std::vector<Part>& own);

  // In kEmpty the targets of the replica's rows alone count. In kAlike its rows are in the places of all
  // others too, so that batch norms of other groups have the statistics of its own.
  enum class Others { kEmpty, kAlike };
  Batch batch_of(size_t replica, Batch batch, Others others) const;

 private:
  void spread(Batch& batch, size_t replica) const;

  std::vector<std::vector<std::set<int64_t>>> rows_;  // by replica and microbatch
};

// A training in which batch norms have no rows of two replicas together.
Training with_own_groups(Training training, const Plan& plan);
// What a batch for its reference has to have, and what of that comes out as it does on a replica.
RowsAlone::Others others_for(const Reference& reference);
std::vector<std::string> left_alone(const Reference& reference);

}  // namespace trireme::parity
