// A chain: what the ranks before have added up goes from each to the next, and the sum comes back the same
// way. No rank ever takes messages from two at once, and all additions are in rank order.
#include "trireme/comm/collective/algorithm_functions.h"

namespace trireme::comm {

// 2 (P-1) rounds; an inner rank sends n bytes on and n back. Up to the last rank it takes (P-1) (α + nβ +
// nγ).
Steps linear_all_reduce(int ranks) {
  Steps steps(ranks, /*chunks=*/1);
  for (int r = 0; r + 1 < ranks; ++r) steps.send(r, r + 1, 0, Action::add);
  for (int r = ranks - 1; r > 0; --r) steps.send(r, r - 1, 0, Action::copy);
  return steps;
}

// From the rank behind the root on, once around. P-1 rounds; each rank but the root sends n bytes.
Steps linear_reduce(int ranks, int root) {
  Steps steps(ranks, /*chunks=*/1);
  for (int k = 1; k < ranks; ++k) steps.send(root + k, root + k + 1, 0, Action::add);
  return steps;
}

}  // namespace trireme::comm
