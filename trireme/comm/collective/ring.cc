// Ring: each rank sends to the next alone. Fewest bytes, no fan-in, but as many rounds as there are ranks.
#include <numeric>

#include "trireme/comm/collective/algorithm_functions.h"
#include "trireme/comm/collective/ring_of.h"

namespace trireme::comm {
namespace {

Ring ring_of_all(int ranks) {
  std::vector<int> members(ranks);
  std::iota(members.begin(), members.end(), 0);
  return even_ring(std::move(members), /*first_chunk=*/0, /*block_chunks=*/1);
}

}  // namespace

// Part i goes round once and is added to by each, ending at rank i; then it goes round again. 2(P-1) rounds;
// each rank sends 2 (P-1)/P n bytes.
Steps ring_all_reduce(int ranks) {
  Steps steps(ranks, /*chunks=*/ranks);
  reduce_scatter(steps, ring_of_all(ranks));
  all_gather(steps, ring_of_all(ranks));
  return steps;
}

// P-1 rounds; each rank sends (P-1)/P n bytes.
Steps ring_reduce_scatter(int ranks) {
  Steps steps(ranks, /*chunks=*/ranks);
  reduce_scatter(steps, ring_of_all(ranks));
  return steps;
}

// P-1 rounds; each rank sends (P-1)/P n bytes.
Steps ring_all_gather(int ranks) {
  Steps steps(ranks, /*chunks=*/ranks);
  all_gather(steps, ring_of_all(ranks));
  return steps;
}

// A chain from the root, which pipelines in segments: P-1 rounds of the first, one more for each further.
// Each rank but the last sends n bytes.
Steps ring_broadcast(int ranks, int root) {
  Steps steps(ranks, /*chunks=*/1);
  for (int k = 0; k + 1 < ranks; ++k) steps.send(root + k, root + k + 1, 0, Action::copy);
  return steps;
}

}  // namespace trireme::comm
