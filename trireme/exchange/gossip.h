// Who mixes weights with whom where there is no sum over all: graphs over the ranks of an axis. All ranks
// have equally many neighbours, and i is one of j's where j is one of i's: with equal shares of each, what
// all have together stays what it was.
#pragma once

#include <string_view>
#include <vector>

namespace trireme {

enum class GossipGraph {
  kRing,         // the ranks before and behind
  kTorus,        // of a grid that is as square as it can be, those beside, above and below; its edges meet
  kExponential,  // those 1, 2, 4, … before and behind
};
GossipGraph gossip_graph(std::string_view name);  // as plans call it

// Ascending, without the rank itself.
std::vector<int> neighbours(GossipGraph graph, int ranks, int rank);

// Of a rank that pushes to one other in each step, in turn: how far ahead that is. Where the graph is a ring,
// always the next.
std::vector<int> push_distances(GossipGraph graph, int ranks);

}  // namespace trireme
