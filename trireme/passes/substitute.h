// Ops that a device has no kernels for become other ops with the same results (ops/substitute.h), where
// there are such:
//
//   slots_used, matmul_slots -> reshape, matmul, reshape: one product of all slots, also the empty ones
//
// What nothing depends on afterwards is gone. Runs on a model's graph before autodiff, so that gradients are
// those of the other ops. First results keep their names.
#pragma once

#include <functional>

#include "trireme/ir/graph.h"

namespace trireme {

// `has_kernel` says whether the device computes the op itself.
Graph with_substitutes(const Graph& graph, const OpTable& ops,
                       const std::function<bool(const Node& node)>& has_kernel);

}  // namespace trireme
