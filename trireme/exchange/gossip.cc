// See gossip.h.
#include "trireme/exchange/gossip.h"

#include <set>

#include "trireme/base/error.h"

namespace trireme {
namespace {

int wrapped(int number, int ranks) {
  return (number % ranks + ranks) % ranks;
}

// The largest number of rows that is not above that of columns.
int rows_of_grid(int ranks) {
  int rows = 1;
  for (int r = 1; r * r <= ranks; ++r) {
    if (ranks % r == 0) rows = r;
  }
  return rows;
}

}  // namespace

GossipGraph gossip_graph(std::string_view name) {
  if (name == "ring") return GossipGraph::kRing;
  if (name == "torus") return GossipGraph::kTorus;
  TRIREME_CHECK(name == "exponential");
  return GossipGraph::kExponential;
}

std::vector<int> neighbours(GossipGraph graph, int ranks, int rank) {
  std::set<int> found;
  if (graph == GossipGraph::kTorus) {
    const int rows = rows_of_grid(ranks), columns = ranks / rows;
    const int row = rank / columns, column = rank % columns;
    for (const int way : {-1, 1}) {
      found.insert(wrapped(row + way, rows) * columns + column);
      found.insert(row * columns + wrapped(column + way, columns));
    }
  } else {
    for (const int distance : push_distances(graph, ranks)) {
      found.insert(wrapped(rank + distance, ranks));
      found.insert(wrapped(rank - distance, ranks));
    }
  }
  found.erase(rank);
  return {found.begin(), found.end()};
}

std::vector<int> push_distances(GossipGraph graph, int ranks) {
  if (graph != GossipGraph::kExponential) return {1};
  std::vector<int> distances;
  for (int distance = 1; distance < ranks; distance *= 2) distances.push_back(distance);
  return distances;
}

}  // namespace trireme
