// Ranks as hosts and lanes, for `hierarchical` and its closed forms. As many ranks of each host as the
// smallest host has take part, one in each lane; any further rank is represented by a lane of its host.
#pragma once

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include "trireme/comm/collective/steps.h"

namespace trireme::comm {

struct Levels {
  std::vector<std::vector<int>> hosts;  // the ranks of each, ascending
  int lanes = 0;

  Levels(int ranks, std::span<const int> host_of_rank) : lanes(ranks) {
    std::map<int, std::vector<int>> by_number;
    for (int rank = 0; rank < ranks; ++rank)
      by_number[host_of_rank.empty() ? 0 : host_of_rank[rank]].push_back(rank);
    for (const auto& [number, members] : by_number) {
      hosts.push_back(members);
      lanes = std::min(lanes, static_cast<int>(members.size()));
    }
  }

  int host_count() const { return static_cast<int>(hosts.size()); }

  // The ranks that a lane of a host speaks for, itself the first.
  std::vector<int> spoken_for(int host, int lane) const {
    std::vector<int> result;
    for (size_t i = static_cast<size_t>(lane); i < hosts[host].size(); i += static_cast<size_t>(lanes))
      result.push_back(hosts[host][i]);
    return result;
  }
  // The same as runs of neighbouring numbers: those of chunks, where chunk r is the part of rank r.
  std::vector<Chunks> chunks_of(int host, int lane) const {
    std::vector<Chunks> runs;
    std::vector<int> numbers = spoken_for(host, lane);
    std::ranges::sort(numbers);
    for (const int number : numbers) {
      const bool follows = !runs.empty() && runs.back().first + runs.back().count == number;
      if (follows)
        ++runs.back().count;
      else
        runs.push_back({number, 1});
    }
    return runs;
  }

  // Calls body(rank, the lane rank of its host that speaks for it) for every rank that has no lane.
  template <typename Body>
  void each_without_lane(const Body& body) const {
    for (const std::vector<int>& members : hosts) {
      for (int i = lanes; i < static_cast<int>(members.size()); ++i) body(members[i], members[i % lanes]);
    }
  }

  // Further ranks that one lane of the largest host speaks for.
  int most_further() const {
    size_t largest = 0;
    for (const std::vector<int>& members : hosts) largest = std::max(largest, members.size());
    return (static_cast<int>(largest) - 1) / lanes;
  }
};

}  // namespace trireme::comm
