// Elastic determinism: a batch is cut into V virtual shards of the same shape, and a step computes each of
// them by the same program, on whichever rank. What they leave (gradients, loss, count) is added up in one
// binary tree over shards 0…V−1:
//
//   ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7))
//
// A rank has V/P consecutive shards, a subtree, and adds it up alone; sums over the ranks add the subtrees,
// in the same tree. So 1, 2, 4, … V ranks end with the same bits in all weights.
//
// A rank goes through its shards like a binary counter. Segments, of which a rank with one shard has the
// first only:
//
//   first      a shard that ends a pair: its gradients are where the update looks for them
//   left       a shard that begins a pair: the same, but what it leaves waits as level 0
//   merge k    adds what waits as level 0 … k−1, nearest first, and leaves the sum waiting as level k; the
//              last one leaves it where the update looks
#include <fmt/format.h>

#include <bit>

#include "trireme/base/error.h"
#include "trireme/plan/combinations.h"
#include "trireme/schedule/schedule.h"

namespace trireme {
namespace {

void check_promise(int64_t total, const Plan& plan) {
  TRIREME_CHECK(std::has_single_bit(static_cast<uint64_t>(total)));
  Features features = features_of(plan);
  features.insert(Feature::kShards);
  check_combinations(features);
  if (total % plan.mesh.ranks() != 0) {
    throw_error(
        "train.shards = {} can not be shared evenly by {} ranks; start a power of two of them, {} at most, "
        "or raise train.shards",
        total, plan.mesh.ranks(), total);
  }
}

}  // namespace

Schedule shards(int64_t total, const Plan& plan, int rank) {
  check_promise(total, plan);
  const int64_t own = total / plan.mesh.ranks();
  Schedule schedule{
      .microbatches = total, .own = own, .deal = Schedule::Deal::kWholes, .sums = Schedule::Sums::kInPairs};
  for (int64_t i = 0; i < own; ++i) {
    const bool begins_pair = i % 2 == 0 && own > 1;
    schedule.step.push_back(Action::run(begins_pair ? "left" : "first", rank * own + i));
    if (const int merged = std::countr_one(static_cast<uint64_t>(i)); !begins_pair && merged > 0)
      schedule.step.push_back(Action::run(fmt::format("merge{}", merged)));
    schedule.evaluation.push_back(Action::run("evaluate", i));
  }
  schedule.step.push_back(Action::run("update"));
  return schedule;
}

}  // namespace trireme
