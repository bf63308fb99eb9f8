// Joins nodes whose fusion saves passes over memory. Runs after autodiff, so that fused ops need no
// gradients: a fused node still makes every value that the backward part reads.
//
//   matmul, add bias                  -> matmul {epilogue="bias"}
//   matmul, add bias, gelu            -> matmul {epilogue="bias_gelu"}, which makes the sum too
//   matmul (with bias), add residual  -> matmul {epilogue="residual" or "bias_residual"}
//   (add bias,) dropout, add residual -> dropout_add
//   add, layer_norm or rms_norm       -> add_layer_norm, add_rms_norm, which make the sum too
//   sum_squares of many tensors, add  -> total_squares
//
// A residual that is made behind its product stays apart. It changes no bits, in any format: a fused kernel
// rounds where the nodes that it stands for stored something.
#pragma once

#include "trireme/ir/graph.h"

namespace trireme {

Graph fuse(const Graph& graph, const OpTable& ops);

}  // namespace trireme
