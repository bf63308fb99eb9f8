// All-to-all of two levels: first across hosts, then inside. What a rank has for all of another host goes in
// one message to the rank that stands for its lane there, which deals it out. Between hosts that is one
// message of each lane for each other host, instead of one for each of its ranks; the bytes there are the
// same, those inside are more. What goes on together is put together in scratch, so a message is never in
// parts.
//
// Chunks are passed on by ranks that neither give nor get them, so they have to be of one size.
#include <algorithm>
#include <map>
#include <vector>

#include "trireme/comm/collective/algorithm_functions.h"
#include "trireme/comm/collective/levels.h"

namespace trireme::comm {
namespace {

// What one rank gives to another.
struct Gift {
  int from;
  int to;
};

// Sends gifts in one message each time, from wherever they lie, and knows where they lie then.
class Parcels {
 public:
  explicit Parcels(Steps& steps) : steps_(steps), used_(steps.ranks()), passing_(steps.ranks()) {}

  void send(int from, int to, const std::vector<Gift>& gifts) {
    if (gifts.empty()) return;
    const int count = static_cast<int>(gifts.size());
    const int first = together(from, gifts);
    const bool arrives = count == 1 && gifts[0].to == to;
    const int into = arrives ? chunk_of(gifts[0]) : room(to, count);
    steps_.send(from, to, Chunks{first, count}, into, Action::copy);
    for (int i = 0; i < count && !arrives; ++i) {
      if (gifts[i].to == to) {
        steps_.local(to, chunk_of(gifts[i]), into + i, Action::copy);
      } else {
        passing_[to][chunk_of(gifts[i])] = into + i;
      }
    }
  }

 private:
  int chunk_of(Gift gift) const { return gift.from * steps_.ranks() + gift.to; }
  int place(int rank, Gift gift) const {
    return gift.from == rank ? chunk_of(gift) : passing_[rank].at(chunk_of(gift));
  }

  // The first of neighbouring chunks of a rank that hold them: those where they are, or copies.
  int together(int rank, const std::vector<Gift>& gifts) {
    const int first = place(rank, gifts[0]), count = static_cast<int>(gifts.size());
    bool neighbours = steps_.is_scratch(first) == steps_.is_scratch(first + count - 1);
    for (int i = 1; i < count; ++i) neighbours &= place(rank, gifts[i]) == first + i;
    if (neighbours) return first;
    const int copies = room(rank, count);
    for (int i = 0; i < count; ++i) steps_.local(rank, copies + i, place(rank, gifts[i]), Action::copy);
    return copies;
  }

  // The first of so many chunks of scratch that a rank has not used.
  int room(int rank, int count) {
    const int first = steps_.chunks() + used_[rank];
    used_[rank] += count;
    while (steps_.scratch_chunks() < used_[rank]) steps_.scratch();
    return first;
  }

  Steps& steps_;
  std::vector<int> used_;                    // of scratch, by rank
  std::vector<std::map<int, int>> passing_;  // of each rank: where a chunk is that it passes on
};

std::vector<Gift> gifts(const std::vector<int>& from, const std::vector<int>& to) {
  std::vector<Gift> result;
  for (const int giver : from) {
    for (const int taker : to) result.push_back({giver, taker});
  }
  return result;
}

}  // namespace

// 2 rounds: H-1 messages across of n/H bytes, L-1 inside of n/L. Ranks beyond the lanes of uneven hosts give
// to one of their host first what is for others: 1 round more.
Steps hierarchical_all_to_all(int ranks, std::span<const int> host_of_rank) {
  const Levels levels(ranks, host_of_rank);
  const int host_count = levels.host_count();
  Steps steps(ranks, /*chunks=*/ranks * ranks);
  steps.expect_even_chunks();
  Parcels parcels(steps);
  levels.each_without_lane([&](int rank, int lane_rank) {
    std::vector<int> others;
    for (const std::vector<int>& members : levels.hosts) {
      const bool own = std::ranges::find(members, rank) != members.end();
      if (!own) others.insert(others.end(), members.begin(), members.end());
    }
    parcels.send(rank, lane_rank, gifts({rank}, others));
  });
  for (int k = 1; k < host_count; ++k) {
    for (int host = 0; host < host_count; ++host) {
      const std::vector<int>&here = levels.hosts[host], &there = levels.hosts[(host + k) % host_count];
      for (int lane = 0; lane < levels.lanes; ++lane)
        parcels.send(here[lane], there[lane], gifts(levels.spoken_for(host, lane), there));
    }
  }
  for (int host = 0; host < host_count; ++host) {
    const std::vector<int>& members = levels.hosts[host];
    const int size = static_cast<int>(members.size());
    for (int k = 1; k < size; ++k) {
      for (int i = 0; i < size; ++i) {
        const int from = members[i], to = members[(i + k) % size];
        std::vector<int> givers = {from};
        for (int other = 0; other < host_count && i < levels.lanes; ++other) {
          if (other == host) continue;
          const std::vector<int> of_lane = levels.spoken_for(other, i);
          givers.insert(givers.end(), of_lane.begin(), of_lane.end());
        }
        parcels.send(from, to, gifts(givers, {to}));
      }
    }
  }
  return steps;
}

}  // namespace trireme::comm
