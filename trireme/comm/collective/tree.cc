// Trees. Reductions and broadcasts go along a binary tree, because cut in segments it keeps all links busy
// while no rank has more than two children. Gather and scatter go along a binomial tree, whose subtrees are
// neighbouring ranks, so that what a subtree holds is one or two messages.
#include <algorithm>

#include "trireme/comm/collective/algorithm_functions.h"
#include "trireme/comm/collective/binary_tree.h"

namespace trireme::comm {
namespace {

Tree tree_from(int ranks, int root) {
  return binary_tree(ranks, [=](int place) { return (root + place) % ranks; });
}

// Calls body(parent, child, subtree) for each edge of the binomial tree, nearest to the leaves first. Places
// are ranks counted from the root; the subtree of place v with lowest bit b are the places v … v+b-1.
template <typename Body>
void each_binomial_edge(int ranks, const Body& body) {
  for (int bit = 1; bit < ranks; bit *= 2) {
    for (int place = bit; place < ranks; place += 2 * bit) {
      body(place - bit, place, std::min(bit, ranks - place));
    }
  }
}

// The parts of places first … first+count-1, which may run over the end of the vector.
void send_parts(Steps& steps, int root, int from, int to, int first, int count) {
  const int ranks = steps.ranks();
  const int begin = (root + first) % ranks;
  const int before_end = std::min(count, ranks - begin);
  const int sender = (root + from) % ranks;
  const int receiver = (root + to) % ranks;
  steps.send(sender, receiver, Chunks{begin, before_end}, Action::copy);
  steps.send(sender, receiver, Chunks{0, count - before_end}, Action::copy);
}

}  // namespace

// Up and down again. 2⌈log₂P⌉ rounds; an inner rank sends n bytes up and 2n down.
Steps tree_all_reduce(int ranks) {
  Steps steps(ranks, /*chunks=*/1);
  const Tree tree = tree_from(ranks, 0);
  reduce_up(steps, tree, tree.root, 0);
  broadcast_down(steps, tree, tree.root, 0);
  return steps;
}

// ⌈log₂P⌉ rounds; an inner rank sends 2n bytes.
Steps tree_broadcast(int ranks, int root) {
  Steps steps(ranks, /*chunks=*/1);
  broadcast_down(steps, tree_from(ranks, root), root, 0);
  return steps;
}

// ⌈log₂P⌉ rounds; each rank but the root sends n bytes.
Steps tree_reduce(int ranks, int root) {
  Steps steps(ranks, /*chunks=*/1);
  reduce_up(steps, tree_from(ranks, root), root, 0);
  return steps;
}

// At most ⌈log₂P⌉ rounds; the root's largest child sends up to n/2 bytes.
Steps tree_gather(int ranks, int root) {
  Steps steps(ranks, /*chunks=*/ranks);
  each_binomial_edge(ranks, [&](int parent, int child, int subtree) {
    send_parts(steps, root, child, parent, child, subtree);
  });
  return steps;
}

// Gather backwards: at most ⌈log₂P⌉ rounds; the root sends (P-1)/P n bytes.
Steps tree_scatter(int ranks, int root) {
  struct Edge {
    int parent, child, subtree;
  };
  std::vector<Edge> edges;
  each_binomial_edge(ranks, [&](int parent, int child, int subtree) {
    edges.push_back({parent, child, subtree});
  });
  std::reverse(edges.begin(), edges.end());
  Steps steps(ranks, /*chunks=*/ranks);
  for (const Edge& edge : edges) send_parts(steps, root, edge.parent, edge.child, edge.child, edge.subtree);
  return steps;
}

}  // namespace trireme::comm
