// The segments by which a rank adds up what its virtual shards left (schedule/shards.cc).
#pragma once

#include <vector>

#include "trireme/ir/graph.h"

namespace trireme {

// Beside `first`, which stores what it computes and reads nothing of it, for a rank with `own` shards:
//
//   left     the same as `first`, but what it leaves waits as `left0.NAME`
//   merge1…  merge k adds `left0.NAME` … `left(k−1).NAME` to NAME, nearest first, and leaves the sum waiting
//            as `leftk.NAME`; the last one leaves it where the update looks
std::vector<Graph> shard_graphs(const Graph& first, int64_t own);

}  // namespace trireme
