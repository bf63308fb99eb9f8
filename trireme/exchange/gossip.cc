// See gossip.h.
#include "trireme/exchange/gossip.h"

#include <algorithm>
#include <set>

#include "trireme/base/error.h"
#include "trireme/base/rng.h"

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

std::vector<GossipRound> gossip_rounds(GossipGraph graph, int ranks, int rank) {
  const int rows = graph == GossipGraph::kTorus ? rows_of_grid(ranks) : 1, columns = ranks / rows;
  std::set<std::pair<int, int>> moves;  // the same of all ranks; another way round may be the same one
  for (const int way : {-1, 1}) {
    moves.insert({wrapped(way, rows), 0});
    for (const int distance : push_distances(graph, ranks))
      moves.insert({0, wrapped(way * distance, columns)});
  }
  moves.erase({0, 0});
  const int row = rank / columns, column = rank % columns;
  const auto at = [&](int down, int right) {
    return wrapped(row + down, rows) * columns + wrapped(column + right, columns);
  };
  std::vector<GossipRound> rounds;
  for (const auto& [down, right] : moves) rounds.push_back({at(down, right), at(-down, -right)});
  return rounds;
}

std::vector<int> neighbours(GossipGraph graph, int ranks, int rank) {
  std::set<int> found;
  for (const GossipRound& round : gossip_rounds(graph, ranks, rank)) found.insert(round.to);
  return {found.begin(), found.end()};
}

bool asks(GossipGraph graph, int ranks, int rank) {
  if (graph != GossipGraph::kTorus) return rank % 2 == 0;
  const int columns = ranks / rows_of_grid(ranks);
  return (rank / columns + rank % columns) % 2 == 0;
}

std::vector<int> partners(GossipGraph graph, int ranks, int rank) {
  std::vector<int> found = neighbours(graph, ranks, rank);
  if (graph == GossipGraph::kExponential) {
    std::set<int> odd = {wrapped(rank + 1, ranks), wrapped(rank - 1, ranks)};
    for (int distance = 2; distance + 1 < ranks; distance *= 2) {
      odd.insert(wrapped(rank + distance + 1, ranks));
      odd.insert(wrapped(rank - distance - 1, ranks));
    }
    found.assign(odd.begin(), odd.end());
  }
  std::erase_if(found, [&](int other) { return asks(graph, ranks, other) == asks(graph, ranks, rank); });
  return found;
}

std::vector<std::pair<int, int>> apart_pairs(GossipGraph graph, int ranks) {
  std::vector<std::pair<int, int>> pairs;
  std::set<int> taken;
  for (int rank = 0; rank < ranks; ++rank) {
    if (!asks(graph, ranks, rank)) continue;
    for (const int other : partners(graph, ranks, rank)) {
      if (!taken.insert(other).second) continue;
      pairs.emplace_back(rank, other);
      break;
    }
  }
  return pairs;
}

PartnerDraw::PartnerDraw(GossipGraph graph, int ranks, int rank, uint64_t seed)
    : ranks_(ranks), rank_(rank), seed_(seed), partners_(trireme::partners(graph, ranks, rank)) {}

int PartnerDraw::at(int64_t step) const {
  const RngKey key{seed_, stream_id("exchange.partners")};
  const auto number =
      static_cast<uint64_t>(step) * static_cast<uint64_t>(ranks_) + static_cast<uint64_t>(rank_);
  const auto drawn = static_cast<size_t>(uniform(key, number) * static_cast<float>(partners_.size()));
  return partners_[std::min(drawn, partners_.size() - 1)];
}

std::vector<int> push_distances(GossipGraph graph, int ranks) {
  if (graph != GossipGraph::kExponential) return {1};
  std::vector<int> distances;
  for (int distance = 1; distance < ranks; distance *= 2) distances.push_back(distance);
  return distances;
}

}  // namespace trireme
