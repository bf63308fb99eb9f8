// Every algorithm, declared for the table in algorithms.cc and for nobody else. Each is a function from the
// number of ranks to Steps, in the file of its name or family. Any number of ranks from 1 on.
#pragma once

#include <span>

#include "trireme/comm/collective/steps.h"

namespace trireme::comm {

// One chunk, or two for double_tree, or as many as there are ranks: what each algorithm finds best.
Steps naive_all_reduce(int ranks);
Steps parameter_server_all_reduce(int ranks);
Steps sharded_parameter_server_all_reduce(int ranks);
Steps linear_all_reduce(int ranks);
Steps ring_all_reduce(int ranks);
Steps tree_all_reduce(int ranks);
Steps double_tree_all_reduce(int ranks);
Steps butterfly_all_reduce(int ranks);
Steps reduce_scatter_gather_all_reduce(int ranks);
Steps hierarchical_all_reduce(int ranks, std::span<const int> hosts);  // host number of each rank

// Chunk r is the part of rank r.
Steps naive_reduce_scatter(int ranks);
Steps ring_reduce_scatter(int ranks);
Steps butterfly_reduce_scatter(int ranks);
Steps naive_all_gather(int ranks);
Steps ring_all_gather(int ranks);
Steps butterfly_all_gather(int ranks);
Steps hierarchical_reduce_scatter(int ranks, std::span<const int> hosts);
Steps hierarchical_all_gather(int ranks, std::span<const int> hosts);
Steps naive_gather(int ranks, int root);
Steps tree_gather(int ranks, int root);
Steps naive_scatter(int ranks, int root);
Steps tree_scatter(int ranks, int root);

// One chunk.
Steps naive_broadcast(int ranks, int root);
Steps ring_broadcast(int ranks, int root);
Steps tree_broadcast(int ranks, int root);
Steps hierarchical_broadcast(int ranks, int root, std::span<const int> hosts);  // as many as it finds best
Steps naive_reduce(int ranks, int root);
Steps linear_reduce(int ranks, int root);
Steps tree_reduce(int ranks, int root);
Steps butterfly_barrier(int ranks);

// Chunk from * ranks + to is what `from` gives to `to`. What a rank gives to itself is nobody's message: the
// engine copies it.
Steps naive_all_to_all(int ranks);
Steps hierarchical_all_to_all(int ranks, std::span<const int> hosts);  // of even chunks

}  // namespace trireme::comm
