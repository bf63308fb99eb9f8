// Two levels: rings inside each host, and rings across hosts, one for each lane, so that the slow links carry
// each part once, and every rank's own. H hosts of L ranks.
//
// Uneven hosts: as many ranks of each host as the smallest host has take part, one in each lane; the others
// first give what they have to one of those of their host, and get their result back: one round more each way
// inside.
#include <algorithm>
#include <vector>

#include "trireme/comm/collective/algorithm_functions.h"
#include "trireme/comm/collective/levels.h"
#include "trireme/comm/collective/ring_of.h"

namespace trireme::comm {
namespace {

std::vector<int> lane_ranks(const Levels& levels, int host) {
  const std::vector<int>& members = levels.hosts[host];
  return {members.begin(), members.begin() + levels.lanes};
}

std::vector<int> ranks_of_lane(const Levels& levels, int lane) {
  std::vector<int> members;
  for (const std::vector<int>& of_host : levels.hosts) members.push_back(of_host[lane]);
  return members;
}

// Where a vector has no parts of ranks: lanes times hosts chunks, those of a lane are neighbours.
struct AnyParts {
  const Levels& levels;
  Chunks all() const { return {0, levels.lanes * levels.host_count()}; }
  Ring inside(int host) const { return even_ring(lane_ranks(levels, host), 0, levels.host_count()); }
  Ring across(int lane) const {
    return even_ring(ranks_of_lane(levels, lane), lane * levels.host_count(), 1);
  }
};

// Where chunk r is the part of rank r: a lane has the parts of those that it speaks for. Inside there is one
// ring for each host's parts, so that those that the other hosts wait for can go first, and what has come
// from them goes on while the next is on its way.
struct PartsOfRanks {
  const Levels& levels;
  // `back` hosts before `host`: the order in which a ring across takes their parts.
  Ring inside(int host, int back) const {
    const int of = ((host - back) % levels.host_count() + levels.host_count()) % levels.host_count();
    Ring ring{.members = lane_ranks(levels, host), .blocks = {}};
    for (int lane = 0; lane < levels.lanes; ++lane) ring.blocks.push_back(levels.chunks_of(of, lane));
    return ring;
  }
  Ring across(int lane) const {
    Ring ring{.members = ranks_of_lane(levels, lane), .blocks = {}};
    for (int host = 0; host < levels.host_count(); ++host)
      ring.blocks.push_back(levels.chunks_of(host, lane));
    return ring;
  }
};

}  // namespace

// Reduce-scatter inside, all-reduce of each part across, all-gather inside. 2(L-1) + 2(H-1) rounds; each rank
// sends 2 (L-1)/L n bytes inside and 2 (H-1)/H n/L bytes across.
Steps hierarchical_all_reduce(int ranks, std::span<const int> host_of_rank) {
  const Levels levels(ranks, host_of_rank);
  const AnyParts parts{levels};
  Steps steps(ranks, parts.all().count);
  levels.each_without_lane([&](int rank, int lane) { steps.send(rank, lane, parts.all(), Action::add); });
  for (int host = 0; host < levels.host_count(); ++host) reduce_scatter(steps, parts.inside(host));
  for (int lane = 0; lane < levels.lanes; ++lane) {
    reduce_scatter(steps, parts.across(lane));
    all_gather(steps, parts.across(lane));
  }
  for (int host = 0; host < levels.host_count(); ++host) all_gather(steps, parts.inside(host));
  levels.each_without_lane([&](int rank, int lane) { steps.send(lane, rank, parts.all(), Action::copy); });
  return steps;
}

// Reduce-scatter inside, then of each lane across. (L-1) + (H-1) max(1, L-2) rounds; each rank sends (L-1)/L
// n bytes inside, in H (L-1) messages, and (H-1)/H n/L bytes across, in H-1.
Steps hierarchical_reduce_scatter(int ranks, std::span<const int> host_of_rank) {
  const Levels levels(ranks, host_of_rank);
  const PartsOfRanks parts{levels};
  Steps steps(ranks, /*chunks=*/ranks);
  levels.each_without_lane([&](int rank, int lane) {
    steps.send(rank, lane, Chunks{0, ranks}, Action::add);
  });
  for (int host = 0; host < levels.host_count(); ++host) {
    for (int back = 1; back <= levels.host_count(); ++back) reduce_scatter(steps, parts.inside(host, back));
  }
  for (int lane = 0; lane < levels.lanes; ++lane) reduce_scatter(steps, parts.across(lane));
  levels.each_without_lane([&](int rank, int lane) { steps.send(lane, rank, rank, Action::copy); });
  return steps;
}

// The same backwards: all-gather of each lane across, then inside. As many rounds and bytes.
Steps hierarchical_all_gather(int ranks, std::span<const int> host_of_rank) {
  const Levels levels(ranks, host_of_rank);
  const PartsOfRanks parts{levels};
  Steps steps(ranks, /*chunks=*/ranks);
  levels.each_without_lane([&](int rank, int lane) { steps.send(rank, lane, rank, Action::copy); });
  for (int lane = 0; lane < levels.lanes; ++lane) all_gather(steps, parts.across(lane));
  for (int host = 0; host < levels.host_count(); ++host) {
    for (int back = 0; back < levels.host_count(); ++back) all_gather(steps, parts.inside(host, back));
  }
  levels.each_without_lane([&](int rank, int lane) {
    steps.send(lane, rank, Chunks{0, rank}, Action::copy);
    steps.send(lane, rank, Chunks{rank + 1, ranks - rank - 1}, Action::copy);
  });
  return steps;
}

// The root deals out parts to the lanes of its host, each of which deals its part out to the hosts; then an
// all-gather across and one inside. Rounds: one for each dealing, (H-1) + (L-1). The root sends
// 2 (L-1)/L n bytes inside and 2 (H-1)/H n/L bytes across; the slow links carry each part once.
Steps hierarchical_broadcast(int ranks, int root, std::span<const int> host_of_rank) {
  Levels levels(ranks, host_of_rank);
  int home = 0;  // the root's host, in which it takes the first lane
  for (int host = 0; host < levels.host_count(); ++host) {
    std::vector<int>& members = levels.hosts[host];
    const auto found = std::ranges::find(members, root);
    if (found == members.end()) continue;
    std::rotate(members.begin(), found, found + 1);
    home = host;
  }
  const AnyParts parts{levels};
  Steps steps(ranks, parts.all().count);
  const Ring at_home = parts.inside(home);
  for (int lane = 1; lane < levels.lanes; ++lane)
    steps.send(root, at_home.members[lane], at_home.blocks[lane][0], Action::copy);
  for (int lane = 0; lane < levels.lanes; ++lane) {
    const Ring across = parts.across(lane);
    for (int k = 1; k < levels.host_count(); ++k) {
      const int host = (home + k) % levels.host_count();
      steps.send(across.members[home], across.members[host], across.blocks[host][0], Action::copy);
    }
  }
  for (int lane = 0; lane < levels.lanes; ++lane) all_gather(steps, parts.across(lane));
  for (int host = 0; host < levels.host_count(); ++host) all_gather(steps, parts.inside(host));
  levels.each_without_lane([&](int rank, int lane) { steps.send(lane, rank, parts.all(), Action::copy); });
  return steps;
}

}  // namespace trireme::comm
