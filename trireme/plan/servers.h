// A plan whose ranks agree by way of servers: the first ranks keep the weights and the optimizer's states,
// each those of some parameters, and the others, the workers, send them gradients and take weights from them.
// What the plan's exchange says of that.
#pragma once

#include <cstdint>
#include <optional>

#include "trireme/plan/plan.h"

namespace trireme {

inline constexpr int kLeadingServer = 0;  // the rank that evaluates too

struct Servers {
  // kClocks: the gradients of all workers' step c are added up and make update c; a worker waits for the
  // update that is `staleness` behind its own. kArrivals: each gradient makes an update, as it arrives.
  enum class Updates { kClocks, kArrivals } updates = Updates::kClocks;
  int64_t staleness = 0;  // kClocks: by how many steps a worker may be ahead of the slowest
  // kArrivals: the rate is divided by how many updates the weights of a gradient are behind, where any.
  enum class Rate { kAsItIs, kByStaleness } rate = Rate::kAsItIs;
  int count = 1, workers = 0;

  bool serves(int rank) const { return rank < count; }
  int rank_of(int worker) const { return count + worker; }  // workers are counted from 0
};

// Nothing where the plan's exchange is of another kind. Throws Error where the rest of the plan does not
// allow it, with the reason.
std::optional<Servers> servers_of(const Plan& plan);

}  // namespace trireme
