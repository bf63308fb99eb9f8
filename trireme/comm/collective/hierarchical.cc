// Two levels: reduce-scatter inside each host, all-reduce of each part across hosts, all-gather inside; all
// of them rings. With H hosts of L ranks, 2(L-1) + 2(H-1) rounds; each rank sends 2 (L-1)/L n bytes inside
// and 2 (H-1)/H n/L bytes across, which is what the slow link has to carry.
//
// Uneven hosts: as many ranks of each host as the smallest host has take part, one for each part; the others
// first add their whole vector to one of those of their host, and get the result back: one round more each
// way inside.
#include <algorithm>
#include <map>
#include <vector>

#include "trireme/comm/collective/algorithm_functions.h"
#include "trireme/comm/collective/ring_of.h"

namespace trireme::comm {
namespace {

// Calls body(rank, lane rank of the same host) for every rank that has no part of its own.
template <typename Body>
void each_without_lane(const std::vector<std::vector<int>>& hosts, int lanes, const Body& body) {
  for (const std::vector<int>& members : hosts) {
    for (int i = lanes; i < static_cast<int>(members.size()); ++i) body(members[i], members[i % lanes]);
  }
}

}  // namespace

Steps hierarchical_all_reduce(int ranks, std::span<const int> host_of_rank) {
  std::map<int, std::vector<int>> by_number;
  for (int rank = 0; rank < ranks; ++rank) {
    by_number[host_of_rank.empty() ? 0 : host_of_rank[rank]].push_back(rank);
  }
  std::vector<std::vector<int>> hosts;
  int lanes = ranks;
  for (const auto& [number, members] : by_number) {
    hosts.push_back(members);
    lanes = std::min(lanes, static_cast<int>(members.size()));
  }
  const int host_count = static_cast<int>(hosts.size());

  // Part `lane` of the vector, of one lane of each host, is host_count chunks.
  Steps steps(ranks, /*chunks=*/lanes * host_count);
  const Chunks all{0, steps.chunks()};
  const auto inside = [&](int host) {
    const std::vector<int> members(hosts[host].begin(), hosts[host].begin() + lanes);
    return Ring{.members = members, .first_chunk = 0, .block_chunks = host_count};
  };
  each_without_lane(hosts, lanes, [&](int rank, int lane) { steps.send(rank, lane, all, Action::add); });
  for (int host = 0; host < host_count; ++host) reduce_scatter(steps, inside(host));
  for (int lane = 0; lane < lanes; ++lane) {
    Ring across{.members = {}, .first_chunk = lane * host_count, .block_chunks = 1};
    for (const std::vector<int>& members : hosts) across.members.push_back(members[lane]);
    reduce_scatter(steps, across);
    all_gather(steps, across);
  }
  for (int host = 0; host < host_count; ++host) all_gather(steps, inside(host));
  each_without_lane(hosts, lanes, [&](int rank, int lane) { steps.send(lane, rank, all, Action::copy); });
  return steps;
}

}  // namespace trireme::comm
