// A placed workflow as a job of ranks: rank 0 is the sources and hears what becomes of every request, each
// other rank is one worker. Every rank makes the same Job from the same files, so that all know which worker
// takes what of which request, and nobody asks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trireme/comm/collective/emulated_link.h"
#include "trireme/place/latency_goal.h"

namespace trireme::placed {

struct Job {
  place::Workflow workflow;
  place::Placement placement;
  place::PlacedFlow placed;
  std::vector<double> arrivals;  // of the requests, in seconds
  place::Taken taken;            // of each request, the route of each op
  int source_tier = 0;

  int workers() const { return static_cast<int>(placed.servers.size()); }
  int ranks() const { return 1 + workers(); }
  // Who does `op` for `request`; -1: nobody, it is answered without.
  int rank_of(int64_t request, int op) const;
  // Of a rank's messages along an input of an op to another rank; from rank 0 those of a source.
  int64_t messages(int from, int to, int op, int input) const;
  int64_t items(int rank) const;  // that a worker makes
  int tier_of_rank(int rank) const { return rank == 0 ? source_tier : placed.tiers[rank - 1]; }
  // "box/1 (rank 2), which runs read"
  std::string name_of_rank(int rank) const;

  const place::Variant& variant(int op) const { return workflow.ops[op].variants[placement.variants[op]]; }
  // Of a message along an input of an op.
  size_t message_bytes(int op, int input) const;
};

// In front of every message between ops stands the number of its request.
inline constexpr size_t kNumberBytes = sizeof(int64_t);

// Throws Error for what is placed and can not run: messages that are no whole number of bytes, sources in
// several tiers.
Job make_job(const place::Workflow& workflow, const place::Placement& placement,
             const place::Requests& requests);

// What the links between tiers say, by ranks. What is told to rank 0 takes no time.
comm::EmulatedLinks links_between(const Job& job);

}  // namespace trireme::placed
