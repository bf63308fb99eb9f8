// Masters that gather, add and send back: one for all, or one for each part.
#include "trireme/comm/collective/algorithm_functions.h"

namespace trireme::comm {

// One master, rank 0, adds in rank order. 2 rounds; the master receives and sends (P-1) n bytes.
Steps parameter_server_all_reduce(int ranks) {
  Steps steps(ranks, /*chunks=*/1);
  for (int r = 1; r < ranks; ++r) steps.send(r, 0, 0, Action::add);
  for (int r = 1; r < ranks; ++r) steps.send(0, r, 0, Action::copy);
  return steps;
}

// Rank i is the master of part i: all send it to i, which adds and sends it back to all. 2 rounds of P-1
// messages each; each rank sends 2 (P-1)/P n bytes, and P-1 messages meet at each rank.
Steps sharded_parameter_server_all_reduce(int ranks) {
  Steps steps(ranks, /*chunks=*/ranks);
  for (int k = 1; k < ranks; ++k) steps.each([&](int r) { steps.send(r, r + k, r + k, Action::add); });
  for (int k = 1; k < ranks; ++k) steps.each([&](int r) { steps.send(r, r + k, r, Action::copy); });
  return steps;
}

}  // namespace trireme::comm
