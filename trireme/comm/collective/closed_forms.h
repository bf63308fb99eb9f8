// The closed forms behind the table in algorithms.cc, which is the only one to use them. P ranks.
#pragma once

#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "trireme/comm/collective/formula.h"
#include "trireme/comm/collective/levels.h"

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
  const Levels levels(ranks, host_of_rank);
  const int lanes = levels.lanes, hosts = levels.host_count(), further = levels.most_further();
  const int ring_rounds = 2 * (lanes - 1) + 2 * (hosts - 1);
  const double scattered = all_but_one(lanes) + all_but_one(hosts) / lanes;
  return {ring_rounds + (further > 0 ? 2 : 0), 2 * scattered + further, ring_rounds + 2 * further,
          2 * scattered + 2 * further, scattered + further};
}

// Messages of parts of ranks, and the parts in them.
struct Load {
  int messages = 0;
  int parts = 0;
};
inline Load load_of(const std::vector<Chunks>& runs) {
  Load load{.messages = static_cast<int>(runs.size()), .parts = 0};
  for (const Chunks run : runs) load.parts += run.count;
  return load;
}
// What a ring sends: all blocks but the smallest.
inline Load all_but_smallest(const std::vector<Load>& blocks) {
  const Load& smallest = *std::ranges::min_element(blocks, {}, &Load::parts);
  Load sum{.messages = -smallest.messages, .parts = -smallest.parts};
  for (const Load& block : blocks) sum = {sum.messages + block.messages, sum.parts + block.parts};
  return sum;
}
// The rings inside, one for each host's parts, and one across, as reduce-scatter and all-gather of two levels
// have them.
inline Load two_levels(const Levels& levels) {
  std::vector<std::vector<Load>> of_lane(levels.lanes);
  Load sum, across;
  for (int host = 0; host < levels.host_count(); ++host) {
    std::vector<Load> of_host;
    for (int lane = 0; lane < levels.lanes; ++lane) {
      of_host.push_back(load_of(levels.chunks_of(host, lane)));
      of_lane[lane].push_back(of_host.back());
    }
    const Load inside = all_but_smallest(of_host);
    sum = {sum.messages + inside.messages, sum.parts + inside.parts};
  }
  for (const std::vector<Load>& hosts : of_lane) {
    const Load ring = all_but_smallest(hosts);
    across = {std::max(across.messages, ring.messages), std::max(across.parts, ring.parts)};
  }
  return {sum.messages + across.messages, sum.parts + across.parts};
}

// Neighbours inside send each other the parts of one host after those of another, a round less for each.
inline int rounds_of_two_levels(const Levels& levels) {
  const int more_hosts = levels.host_count() - 1;
  return levels.lanes - 1 + more_hosts * std::max(1, levels.lanes - 2) + (levels.most_further() > 0 ? 2 : 0);
}

inline Formula hierarchical_reduce_scatter_formula(int ranks, std::span<const int> host_of_rank) {
  const Levels levels(ranks, host_of_rank);
  const int further = levels.most_further();
  const Load rings = two_levels(levels);
  const double carried = 1.0 * rings.parts / ranks;
  // A lane sends every part but its own once, a rank without one all of its vector.
  return {rounds_of_two_levels(levels), further > 0 ? 1 : all_but_one(ranks), rings.messages + 2 * further,
          carried + further + 1.0 * further / ranks, carried + further};
}

inline Formula hierarchical_all_gather_formula(int ranks, std::span<const int> host_of_rank) {
  const Levels levels(ranks, host_of_rank);
  const int further = levels.most_further(), hosts = levels.host_count();
  const Load rings = two_levels(levels);
  int most = 0;  // parts that a lane sends
  for (int host = 0; host < hosts; ++host) {
    for (int lane = 0; lane < levels.lanes; ++lane) {
      const auto of_host = [&](int other) { return load_of(levels.chunks_of(other, lane)).parts; };
      const auto of_lane = [&](int other) {
        int parts = 0;
        for (int each = 0; each < hosts; ++each) parts += load_of(levels.chunks_of(each, other)).parts;
        return parts;
      };
      const int across = of_lane(lane) - of_host((host + 1) % hosts);
      const int inside = ranks - of_lane((lane + 1) % levels.lanes);
      most = std::max(most, across + inside + (of_host(host) - 1) * (ranks - 1));
    }
  }
  return {rounds_of_two_levels(levels), 1.0 * most / ranks, rings.messages + 3 * further,
          1.0 * rings.parts / ranks + further, 0};
}

// The root on a largest host.
inline Formula hierarchical_broadcast_formula(int ranks, std::span<const int> host_of_rank) {
  const Levels levels(ranks, host_of_rank);
  const int lanes = levels.lanes, hosts = levels.host_count(), further = levels.most_further();
  const double scattered = all_but_one(lanes) + all_but_one(hosts) / lanes;
  return {(lanes > 1) + (hosts > 1) + hosts - 1 + lanes - 1 + (further > 0), 2 * scattered + further,
          2 * (lanes - 1) + 2 * (hosts - 1) + further, 2 * scattered + further, 0};
}

// Across, all that is for other hosts; inside, what came from there for others of the host, beside what is
// for them of a rank's own.
inline Formula hierarchical_all_to_all_formula(int ranks, std::span<const int> host_of_rank) {
  const Levels levels(ranks, host_of_rank);
  const int hosts = levels.host_count(), further = levels.most_further();
  int inside = 0, most = 0, longest_way = 0;  // `most`: parts that a rank sends
  for (int host = 0; host < hosts; ++host) {
    const int size = static_cast<int>(levels.hosts[host].size()), others = ranks - size;
    inside = std::max(inside, size - 1);
    for (int lane = 0; lane < levels.lanes; ++lane) {
      int came = 0;  // parts for each rank of this host
      for (int other = 0; other < hosts; ++other) {
        if (other != host) came += static_cast<int>(levels.spoken_for(other, lane).size());
      }
      const int spoken_for = static_cast<int>(levels.spoken_for(host, lane).size());
      const int sent = spoken_for * others + (size - 1) * (came + 1);
      most = std::max(most, sent);
      longest_way = std::max(longest_way, sent + (spoken_for - 1) * others);
    }
  }
  const int rounds = (further > 0 && hosts > 1) + (hosts > 1) + (inside > 0);
  return {rounds, 1.0 * most / ranks, further + hosts - 1 + inside, 1.0 * longest_way / ranks, 0};
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
