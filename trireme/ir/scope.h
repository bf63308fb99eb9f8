// Scopes: results are named by paths, h.3/attn/c_attn/matmul, and what stands before the last / of a node's
// first result is the node's scope. Names alone carry it, so it is in the text form, and a pass keeps it by
// keeping names. Gradients have the scope of what they are the gradient of, with /grad behind it.
#pragma once

#include <string>
#include <string_view>

#include "trireme/ir/graph.h"

namespace trireme {

std::string_view scope_of(std::string_view name);  // "h.3/attn" of "h.3/attn/matmul"; "" where there is none
std::string_view scope_of(const Graph& graph, const Node& node);

// One path behind the other; either may be empty.
std::string join_scopes(std::string_view outer, std::string_view inner);

// What a dotted name, like that of a parameter, adds to a scope: "c_attn.weight" of "h.3.attn.c_attn.weight"
// in "h.3/attn", and "" of "h.3.attn". The whole name where it is about something else.
std::string_view name_within(std::string_view scope, std::string_view name);

}  // namespace trireme
