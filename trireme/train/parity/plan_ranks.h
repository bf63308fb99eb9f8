// The ranks of a plan as threads, each with a Trainer of its program that has its starting values.
#pragma once

#include <functional>

#include "trireme/plan/plan.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/parity/reference.h"

namespace trireme::parity {

struct PlanRank {
  RankOptions options;
  MeshCommunicator& communicator;  // has counted no bytes yet
  Trainer& trainer;
  // Whether `communicator` counts all that is sent: no device reaches another one by itself.
  bool counts_bytes;

  int rank() const { return options.rank; }
};

// Messages come as fast as they can, or each later by some, so that ranks at their own pace come apart.
enum class Messages { kAtOnce, kJittering };

// Threads have no way of their own to do a collective, as MPI has: they choose one where `algorithms` say so.
void run_plan_ranks(const Reference& reference, const Plan& plan, const std::vector<Program>& programs,
                    AxisAlgorithms algorithms, Messages messages,
                    const std::function<void(PlanRank&)>& run_rank);

// Rings send what the closed forms say for any number of ranks and size.
AxisAlgorithms rings(const Mesh& mesh);

}  // namespace trireme::parity
