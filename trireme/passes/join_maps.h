// Joins element-wise nodes (ops whose index rule takes each element of the result from the same element of
// the inputs) into maps, which a device does in one pass over memory:
//
//   silu, mul                 -> map "silu(0); mul(2, 1)"
//   mul, mul, silu_grad       -> map with two results, where they read the same tensors
//
// A map also computes again what it can from tensors that it reads anyway: an element-wise result of the
// forward part is then not read, and often not even kept, for the backward part.
#pragma once

#include "trireme/passes/device_fuse.h"

namespace trireme {

// No bit changes: a map rounds what its instructions make as they would store it.
Graph join_maps(const Graph& graph, const OpTable& ops, const GainQuery& gains);

}  // namespace trireme
