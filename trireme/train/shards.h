// Elastic determinism: train.shards = V cuts every batch into V virtual shards of the same shape, and a step
// computes each of them by the same program, on whichever rank. What they leave (gradients, loss, count) is
// added up in one binary tree over shards 0…V−1:
//
//   ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7))
//
// A rank has V/P consecutive shards, a subtree, and adds it up alone; the butterfly over the ranks adds the
// subtrees, in the same tree. So 1, 2, 4, … V ranks end with the same bits in all weights.
//
// A rank goes through its shards like a binary counter. Segments, of which a rank with one shard has the
// first only:
//
//   first      a shard that ends a pair: its gradients are where the update looks for them
//   left       a shard that begins a pair: the same program, but what it leaves waits as `left0.NAME`
//   merge1…    merge k adds `left0.NAME` … `left(k−1).NAME` to NAME, nearest first, and leaves the sum
//              waiting as `leftk.NAME`; the last one leaves it where the update looks
#pragma once

#include <string>
#include <vector>

#include "trireme/comm/call.h"
#include "trireme/ir/graph.h"
#include "trireme/plan/plan.h"
#include "trireme/train/options.h"

namespace trireme {

struct ShardShare {
  int64_t total = 0;  // V; 0: the batch is not cut into shards
  int64_t first = 0;  // this rank's
  int64_t own = 0;
};

// Throws Error when the plan can not keep the promise: ranks that do not share shards evenly, or that split
// anything but the batch.
ShardShare shards_of(const TrainOptions& train, const Plan& plan, int rank);

// How ranks add up what shards left, for their communicator.
comm::Algorithm all_reduce_of(const TrainOptions& train);

// The segments beside `first`, which stores what it computes and reads nothing of it.
std::vector<Graph> shard_graphs(const Graph& first, int64_t own);

// What a rank runs for its shard number `index` of `own`: the segment that computes it and the one that
// merges afterwards, "" where nothing is to be merged.
struct ShardSegments {
  std::string compute, merge;
};
ShardSegments segments_of_shard(int64_t index, int64_t own);

}  // namespace trireme
