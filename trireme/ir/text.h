// The text form of a Graph: it prints, and it parses back to the same text.
//
//   graph mlp
//   state %w: f32[4,8] {init="normal", std=0.02}
//   input %x: f32[2,4]
//   %h: f32[2,8] = matmul(%x, %w)
//   %y: f32[2,8] = relu(%h)
//   update %w <- %w2
//   output loss = %y
//
// One statement a line; `#` begins a comment. Types of results are inferred and must agree.
#pragma once

#include <string>
#include <string_view>

#include "trireme/ir/graph.h"

namespace trireme {

std::string print(const Graph& graph);

// Throws an Error with the line number for text that is not a valid graph.
Graph parse_graph(std::string_view text, const OpTable& ops);

// Attributes alone: `{eps=1e-05, dims=[0,1], kind="lt"}`; "" when there are none.
std::string print(const Attrs& attrs);

}  // namespace trireme
