// Joins nodes that a device does at less cost as one. Runs last, on the graphs of a program for this device:
// no other pass, and no plan, has to know these ops.
//
//   split, attention; attention_grad, concat -> attention_packed, attention_packed_grad
//   cross_entropy, cross_entropy_grad        -> cross_entropy_with_grad
//   layer_norm_grad, add, sum over rows      -> layer_norm_grad_add
//   rms_norm_grad, add                       -> rms_norm_grad_add
//   matmul, gelu_grad                        -> matmul_gelu_grad
//   matmul, cast to f32 (, add)              -> matmul_to_f32, which rounds nothing in between
//   adam, cast to the gradient's format      -> adam_rounded
//   batch_norm_nhwc, (add,) relu             -> batch_norm_nhwc with an epilogue
//   (add,) relu_grad, batch_norm_nhwc_grad   -> batch_norm_nhwc_grad with an epilogue
#pragma once

#include <functional>

#include "trireme/ir/graph.h"

namespace trireme {

// Whether this node, whose operands are values of the graph, costs the device less than what it stands for.
using GainQuery = std::function<bool(const Graph& graph, const Node& node)>;

Graph fused_for_device(const Graph& graph, const OpTable& ops, const GainQuery& gains);

}  // namespace trireme
