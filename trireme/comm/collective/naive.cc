// Everybody talks to everybody, or the root to each: one round, and no plan to minimise bytes. The one to
// compare the others with.
#include <algorithm>

#include "trireme/comm/collective/algorithm_functions.h"

namespace trireme::comm {

// Every rank sends its whole vector to every other and adds all of them in rank order, so that all ranks get
// the same bits. Ranks 0 and 1 add to their own vector, which is among the first two; the others sum in
// scratch, so that ranks that send to them do not have to wait until their own vector has gone out to all.
// 1 round of P-1 messages; each rank sends (P-1) n bytes.
Steps naive_all_reduce(int ranks) {
  Steps steps(ranks, /*chunks=*/1);
  const int sum = steps.scratch();
  const auto sum_of = [&](int rank) { return rank < 2 ? 0 : sum; };
  const auto send_to_all = [&](int from) {
    for (int k = 1; k < ranks; ++k) {
      const int to = (from + k) % ranks;
      const bool first = from == 0 && sum_of(to) == sum;
      steps.send(from, to, 0, sum_of(to), first ? Action::copy : Action::add);
    }
  };
  steps.round([&] {
    for (int from = 0; from < std::min(2, ranks); ++from) send_to_all(from);
  });
  for (int from = 2; from < ranks; ++from) {
    send_to_all(from);
    steps.local(from, sum, 0, Action::add);
  }
  for (int rank = 2; rank < ranks; ++rank) steps.local(rank, 0, sum, Action::copy);
  return steps;
}

// Every rank sends part i to rank i. 1 round of P-1 messages; each rank sends (P-1)/P n bytes.
Steps naive_reduce_scatter(int ranks) {
  Steps steps(ranks, /*chunks=*/ranks);
  for (int k = 1; k < ranks; ++k) steps.each([&](int r) { steps.send(r, r + k, r + k, Action::add); });
  return steps;
}

// Every rank sends its part to every other. 1 round of P-1 messages; each rank sends (P-1)/P n bytes.
Steps naive_all_gather(int ranks) {
  Steps steps(ranks, /*chunks=*/ranks);
  for (int k = 1; k < ranks; ++k) steps.each([&](int r) { steps.send(r, r + k, r, Action::copy); });
  return steps;
}

// Pairwise exchange: in turn k every rank sends to r + k and receives from r - k, so that nobody is addressed
// by two at once. 1 round of P-1 messages; each rank sends all that is not for itself.
Steps naive_all_to_all(int ranks) {
  Steps steps(ranks, /*chunks=*/ranks * ranks);
  for (int k = 1; k < ranks; ++k) {
    steps.each([&](int r) { steps.send(r, r + k, r * ranks + (r + k) % ranks, Action::copy); });
  }
  return steps;
}

// The root sends to each. 1 round of P-1 messages; the root sends (P-1) n bytes.
Steps naive_broadcast(int ranks, int root) {
  Steps steps(ranks, /*chunks=*/1);
  for (int k = 1; k < ranks; ++k) steps.send(root, root + k, 0, Action::copy);
  return steps;
}

// Each sends to the root, which adds them in the order root + 1, root + 2, …. 1 round; each sends n bytes.
Steps naive_reduce(int ranks, int root) {
  Steps steps(ranks, /*chunks=*/1);
  for (int k = 1; k < ranks; ++k) steps.send(root + k, root, 0, Action::add);
  return steps;
}

// Each sends its part to the root. 1 round; each sends n/P bytes.
Steps naive_gather(int ranks, int root) {
  Steps steps(ranks, /*chunks=*/ranks);
  for (int k = 1; k < ranks; ++k) steps.send(root + k, root, root + k, Action::copy);
  return steps;
}

// The root sends each its part. 1 round of P-1 messages; the root sends (P-1)/P n bytes.
Steps naive_scatter(int ranks, int root) {
  Steps steps(ranks, /*chunks=*/ranks);
  for (int k = 1; k < ranks; ++k) steps.send(root, root + k, root + k, Action::copy);
  return steps;
}

}  // namespace trireme::comm
