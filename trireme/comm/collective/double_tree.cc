// Two binary trees, each with half of the data, so that a leaf of one, which has nothing to send down, works
// as an inner rank of the other. The second tree is the first mirrored (even P) or shifted by one (odd P);
// what stands at even places in one stands at odd ones, the leaves, in the other. For odd P one rank is at an
// even place in both, but at the two ends, where it has one child each. So no rank has more than two children
// in all.
// 2⌈log₂P⌉ rounds (one more for each further segment); a rank sends at most n/2 up in each tree and twice n/2
// down: 2n bytes.
#include "trireme/comm/collective/algorithm_functions.h"
#include "trireme/comm/collective/binary_tree.h"

namespace trireme::comm {

Steps double_tree_all_reduce(int ranks) {
  Steps steps(ranks, /*chunks=*/2);
  const Tree first = binary_tree(ranks, [](int place) { return place; });
  const Tree second =
      binary_tree(ranks, [&](int place) { return ranks % 2 == 0 ? ranks - 1 - place : (place + 1) % ranks; });
  // Messages of one pair keep their order, so this order is what lets neither tree wait for the other: up
  // before down, and of 3 ranks, where both trees are chains and share a link, the one that uses it first.
  reduce_up(steps, second, second.root, 1);
  reduce_up(steps, first, first.root, 0);
  broadcast_down(steps, first, first.root, 0);
  broadcast_down(steps, second, second.root, 1);
  return steps;
}

}  // namespace trireme::comm
