// The closed forms behind the table in algorithms.cc, which is the only one to use them. P ranks.
#pragma once

#include <algorithm>
#include <bit>
#include <map>
#include <span>
#include <vector>

#include "trireme/comm/collective/formula.h"

namespace trireme::comm {

inline int floor_log2(int value) {
  return std::bit_width(static_cast<unsigned>(value)) - 1;
}

inline int ceil_log2(int value) {
  return std::bit_width(static_cast<unsigned>(value - 1));
}

// 1 where ranks beyond a power of two are folded in.
inline int folds(int ranks) {
  return std::has_single_bit(static_cast<unsigned>(ranks)) ? 0 : 1;
}

// Rounds of halving or doubling in parts. Folding adds a round each way, but no part takes both while the
// extra ranks all fold into one half.
inline int folded_rounds(int ranks) {
  const int log = floor_log2(ranks);
  const int extra = ranks - (1 << log);
  return log + (extra > 0) + (2 * extra > 1 << log);
}

// (P-1)/P: all parts but one.
inline double all_but_one(int ranks) {
  return (ranks - 1.0) / ranks;
}

inline Formula naive_formula(int p) {
  return {p > 1, p - 1., p - 1, p - 1., p - 1.};
}

inline Formula linear_formula(int p) {
  // An inner rank, there from 3 ranks on, sends one vector on and one back.
  return {2 * (p - 1), 1. * std::min(p - 1, 2), 2 * (p - 1), 2. * (p - 1), p - 1.};
}

inline Formula parameter_server_formula(int p) {
  return {p > 1 ? 2 : 0, p - 1., 2 * (p - 1), 2. * (p - 1), p - 1.};
}

inline Formula sharded_parameter_server_formula(int p) {
  return {p > 1 ? 2 : 0, 2 * all_but_one(p), 2 * (p - 1), 2 * all_but_one(p), all_but_one(p)};
}

inline Formula ring_formula(int p) {
  return {2 * (p - 1), 2 * all_but_one(p), 2 * (p - 1), 2 * all_but_one(p), all_but_one(p)};
}

inline Formula tree_formula(int ranks) {
  const int depth = ceil_log2(ranks);
  // An inner rank with two children, there from 4 ranks on, sends one vector up and two down.
  return {2 * depth, 1.0 * std::min(ranks - 1, 3), 2 * depth, 2.0 * depth, std::max(0.0, 2.0 * depth - 1)};
}

inline Formula double_tree_formula(int ranks) {
  const Formula tree = tree_formula(ranks);
  return {tree.rounds, std::min(2.0, ranks == 1 ? 0 : ranks / 2.0), tree.messages, tree.carried / 2,
          tree.reduced / 2};
}

inline Formula butterfly_formula(int ranks) {
  const int log = floor_log2(ranks);
  const int extra = folds(ranks);
  return {log + 2 * extra, 1.0 * log + extra, log + 2 * extra, log + 2.0 * extra, 1.0 * log + extra};
}

inline Formula reduce_scatter_gather_formula(int ranks) {
  const int log = floor_log2(ranks);
  const int extra = folds(ranks);
  const double scattered = all_but_one(1 << log);
  return {2 * log + 2 * extra, 2 * scattered + extra, 2 * log + 2 * extra, 2 * scattered + 2 * extra,
          scattered + extra};
}

inline Formula butterfly_reduce_scatter_formula(int ranks) {
  const int rounds = folded_rounds(ranks);
  // Folded, an extra rank sends all of its vector.
  const double sent = folds(ranks) == 1 ? 1 : all_but_one(ranks);
  return {rounds, sent, rounds, all_but_one(ranks), all_but_one(ranks)};
}

inline Formula butterfly_all_gather_formula(int ranks) {
  const int log = floor_log2(ranks);
  const int extra = ranks - (1 << log);
  // Rank 0's blocks are the largest: of 2^k members, those that hold two parts come first.
  int parts = (1 << log) - 1;
  for (int k = 0; k < log; ++k) parts += std::min(1 << k, extra);
  if (extra > 0) parts += ranks - 1;
  const int rounds = folded_rounds(ranks);
  return {rounds, 1.0 * parts / ranks, rounds, all_but_one(ranks), 0};
}

inline Formula hierarchical_formula(int ranks, std::span<const int> host_of_rank) {
  std::map<int, int> sizes;
  for (int rank = 0; rank < ranks; ++rank) ++sizes[host_of_rank.empty() ? 0 : host_of_rank[rank]];
  int lanes = ranks;
  int largest = 0;
  for (const auto& [host, size] : sizes) {
    lanes = std::min(lanes, size);
    largest = std::max(largest, size);
  }
  const int hosts = static_cast<int>(sizes.size());
  const int folded = (largest - 1) / lanes;  // ranks that one lane of the largest host speaks for
  const int ring_rounds = 2 * (lanes - 1) + 2 * (hosts - 1);
  const double scattered = all_but_one(lanes) + all_but_one(hosts) / lanes;
  return {ring_rounds + (folded > 0 ? 2 : 0), 2 * scattered + folded, ring_rounds + 2 * folded,
          2 * scattered + 2 * folded, scattered + folded};
}

// The largest subtree of the binomial tree but the whole, in parts.
inline int largest_subtree(int ranks) {
  if (ranks == 1) return 0;
  const int half = 1 << (ceil_log2(ranks) - 1);
  return std::max(ranks - half, half / 2);
}

inline Formula naive_reduce_scatter_formula(int p) {
  return {p > 1, all_but_one(p), p - 1, all_but_one(p), all_but_one(p)};
}

inline Formula ring_reduce_scatter_formula(int p) {
  return {p - 1, all_but_one(p), p - 1, all_but_one(p), all_but_one(p)};
}

// All-gather, scatter and all-to-all, where each rank, or the root, sends one part to each.
inline Formula part_to_each_formula(int p) {
  return {p > 1, all_but_one(p), p - 1, all_but_one(p), 0};
}

inline Formula ring_all_gather_formula(int p) {
  return {p - 1, all_but_one(p), p - 1, all_but_one(p), 0};
}

inline Formula naive_broadcast_formula(int p) {
  return {p > 1, p - 1., p - 1, p - 1., 0};
}

inline Formula ring_broadcast_formula(int p) {
  return {p - 1, p > 1 ? 1. : 0, p - 1, p - 1., 0};
}

inline Formula tree_broadcast_formula(int p) {
  return {ceil_log2(p), 1. * std::clamp(p - 2, p > 1 ? 1 : 0, 2), ceil_log2(p), 1. * ceil_log2(p), 0};
}

inline Formula naive_reduce_formula(int p) {
  return {p > 1, p > 1 ? 1. : 0, p - 1, p - 1., p - 1.};
}

inline Formula linear_reduce_formula(int p) {
  return {p - 1, p > 1 ? 1. : 0, p - 1, p - 1., p - 1.};
}

inline Formula tree_reduce_formula(int p) {
  return {ceil_log2(p), p > 1 ? 1. : 0, ceil_log2(p), 1. * ceil_log2(p), std::max(0., 2. * ceil_log2(p) - 1)};
}

inline Formula naive_gather_formula(int p) {
  return {p > 1, p > 1 ? 1. / p : 0, p - 1, all_but_one(p), 0};
}

inline Formula tree_gather_formula(int p) {
  return {floor_log2(p), 1. * largest_subtree(p) / p, ceil_log2(p), all_but_one(p), 0};
}

inline Formula tree_scatter_formula(int p) {
  return {floor_log2(p), all_but_one(p), ceil_log2(p), all_but_one(p), 0};
}

inline Formula butterfly_barrier_formula(int p) {
  return {ceil_log2(p), 1. * ceil_log2(p), ceil_log2(p), 1. * ceil_log2(p), 1. * ceil_log2(p)};
}

}  // namespace trireme::comm
