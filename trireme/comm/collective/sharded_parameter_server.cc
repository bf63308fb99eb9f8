// Rank i is the master of part i: all send it to i, which adds and sends it back to all. 2 rounds of P-1
// messages each; each rank sends 2 (P-1)/P n bytes, and P-1 messages meet at each rank.
#include "trireme/comm/collective/algorithm_functions.h"

namespace trireme::comm {

Steps sharded_parameter_server_all_reduce(int ranks) {
  Steps steps(ranks, /*chunks=*/ranks);
  for (int k = 1; k < ranks; ++k) steps.each([&](int r) { steps.send(r, r + k, r + k, Action::add); });
  for (int k = 1; k < ranks; ++k) steps.each([&](int r) { steps.send(r, r + k, r, Action::copy); });
  return steps;
}

}  // namespace trireme::comm
