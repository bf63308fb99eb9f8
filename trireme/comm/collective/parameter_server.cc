// One master, rank 0: gathers, adds in rank order, sends back. 2 rounds; the master receives and sends
// (P-1) n bytes.
#include "trireme/comm/collective/algorithm_functions.h"

namespace trireme::comm {

Steps parameter_server_all_reduce(int ranks) {
  Steps steps(ranks, /*chunks=*/1);
  for (int r = 1; r < ranks; ++r) steps.send(r, 0, 0, Action::add);
  for (int r = 1; r < ranks; ++r) steps.send(0, r, 0, Action::copy);
  return steps;
}

}  // namespace trireme::comm
