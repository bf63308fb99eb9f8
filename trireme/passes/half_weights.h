// Weights as 16-bit states: a parameter that is only read rounded becomes a state of the format that it is
// rounded to, and the casts that did so are gone. What the graph computes keeps its bits, as long as whoever
// writes such a state rounds alike. Runs after precision and before autodiff, so that gradients of these
// parameters come out in 16 bits too.
#pragma once

#include <set>
#include <string>

#include "trireme/ir/graph.h"

namespace trireme {

// The f32 parameters that nodes read through casts to `format` alone.
std::set<std::string> rounded_parameters(const Graph& graph, DType format);

// The graph with those of `names` in `format`. Each must be one of its rounded parameters, or not in it.
Graph with_half_weights(const Graph& graph, const std::set<std::string>& names, DType format);

}  // namespace trireme
