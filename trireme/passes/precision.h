// Mixed precision: the graph in which every op computes on 16-bit tensors while states stay f32. Weights are
// rounded where they are read; statistics that records pin to f32 stay f32. Runs before autodiff, so
// gradients of weights come back as f32 through the casts.
#pragma once

#include "trireme/ir/graph.h"

namespace trireme {

// `format`: f16 or bf16; f32 returns the graph as it is. Values named by outputs and updates that were f32
// stay f32.
Graph lower_precision(const Graph& graph, DType format, const OpTable& ops);

}  // namespace trireme
