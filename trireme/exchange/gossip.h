// Who mixes weights with whom where there is no sum over all: graphs over the ranks of an axis. All ranks
// have equally many neighbours, and i is one of j's where j is one of i's: with equal shares of each, what
// all have together stays what it was.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
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
// The same in an order in which nobody hears from two at a time: in a round each rank sends to one and hears
// from one.
struct GossipRound {
  int to, from;
};
std::vector<GossipRound> gossip_rounds(GossipGraph graph, int ranks, int rank);

// Of ranks that average in pairs, of which one asks and the other answers: the ranks are of two kinds, and
// only those of different kinds meet, so that nobody is asked while it waits for an answer. Of a ring and a
// torus its neighbours of the other kind; of an exponential graph those 1, 3, 5, 9, … before and behind,
// which are. Rank 0 asks.
bool asks(GossipGraph graph, int ranks, int rank);
std::vector<int> partners(GossipGraph graph, int ranks, int rank);  // ascending
// Some pairs of partners, no rank in two: as many as are found by the order of ranks. The one who asks is
// first.
std::vector<std::pair<int, int>> apart_pairs(GossipGraph graph, int ranks);

// Whom a rank asks, a function of (seed, rank, step), evenly among its partners.
class PartnerDraw {
 public:
  PartnerDraw(GossipGraph graph, int ranks, int rank, uint64_t seed);
  int at(int64_t step) const;  // counted from 0
  const std::vector<int>& partners() const { return partners_; }

 private:
  int ranks_, rank_;
  uint64_t seed_;
  std::vector<int> partners_;
};

// Of a rank that pushes to one other in each step, in turn: how far ahead that is. Where the graph is a ring,
// always the next.
std::vector<int> push_distances(GossipGraph graph, int ranks);

}  // namespace trireme
