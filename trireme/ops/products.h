// The FLOPs that utilisation counts (docs/simulator.md): those of matrix products, convolutions and
// attention, as their records state them. Everything else a step does is bound by memory, and no ceiling of
// FLOPs is about it.
#pragma once

#include "trireme/ir/graph.h"

namespace trireme {

double product_flops(const Graph& graph, const Node& node);
double product_flops(const Graph& graph);

}  // namespace trireme
