// The binary tree of `tree` and `double_tree`. Places 0 … P-1 stand in order: place 0 is the root, with one
// child; an odd place is a leaf; a place divisible by 2^k and not by 2^(k+1) has its children 2^(k-1) to the
// left and to the right, or the next smaller step to the right where that would be past the end. Depth
// ⌈log₂P⌉ for every P.
//
//   P = 7:   0 ── 4 ─┬─ 2 ─┬─ 1
//                    │     └─ 3
//                    └─ 6 ─── 5
#pragma once

#include <vector>

#include "trireme/comm/collective/steps.h"

namespace trireme::comm {

struct Tree {
  int root;
  std::vector<std::vector<int>> children;  // of each rank
};

// `rank_at(place)` says which rank stands at a place of the tree.
template <typename RankAt>
Tree binary_tree(int ranks, const RankAt& rank_at) {
  Tree tree{.root = rank_at(0), .children = std::vector<std::vector<int>>(ranks)};
  for (int place = 1; place < ranks; ++place) {
    const int step = place & -place;
    const int right_of = place - step;
    const int left_of = right_of | 2 * step;  // the parent, unless it is past the end
    tree.children[rank_at(left_of < ranks ? left_of : right_of)].push_back(rank_at(place));
  }
  return tree;
}

// Everybody's chunk is added up towards the root; a rank adds its children in order. From `top` on.
inline void reduce_up(Steps& steps, const Tree& tree, int top, int chunk) {
  for (const int child : tree.children[top]) {
    reduce_up(steps, tree, child, chunk);
    steps.send(child, top, chunk, Action::add);
  }
}

inline void broadcast_down(Steps& steps, const Tree& tree, int top, int chunk) {
  for (const int child : tree.children[top]) {
    steps.send(top, child, chunk, Action::copy);
    broadcast_down(steps, tree, child, chunk);
  }
}

}  // namespace trireme::comm
