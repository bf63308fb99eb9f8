// The text form of a Graph: it prints, and it parses back to the same text.
//
//   graph mlp
//   state %w: f32[4,8] parameter {init="normal", std=0.02}
//   input %x: f32[2,4] batch
//   %h: f32[2,8] = matmul(%x, %w)
//   %y: f32[2,8] = relu(%h)
//   update %w <- %w2
//   output loss = %y addend
//
// One statement a line; `#` begins a comment. Behind the type of a state or an input stands its role, if it has one
// (role.h), and so behind an output. Types of results are inferred and must agree.
#pragma once

#include <string>
#include <string_view>

#include "trireme/ir/graph.h"

namespace trireme {

std::string print(const Graph& graph);
// Parts of it. One statement, without the end of the line: the declaration of an input or state, or a node; and
// the lines of updates and outputs.
std::string print_declaration(const Value& value);
std::string print_node(const Graph& graph, const Node& node);
std::string print_results(const Graph& graph);

// Throws an Error with the line number for text that is not a valid graph.
Graph parse_graph(std::string_view text, const OpTable& ops);

// Attributes alone: `{eps=1e-05, dims=[0,1], kind="lt"}`; "" when there are none.
std::string print(const Attrs& attrs);

}  // namespace trireme
