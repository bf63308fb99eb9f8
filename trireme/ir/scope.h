// Scopes: results are named by paths, h.3/attn/c_attn/matmul, and what stands before the last / of a node's
// first result is the node's scope. Names alone carry it, so it is in the text form, and a pass keeps it by
// keeping names. Gradients have the scope of what they are the gradient of, with /grad behind it; what is
// made again for them (passes/recompute.h) the scope that it had, with /again behind it.
#pragma once

#include <string>
#include <string_view>

#include "trireme/ir/graph.h"

namespace trireme {

std::string_view scope_of(std::string_view name);  // "h.3/attn" of "h.3/attn/matmul"; "" where there is none
std::string_view scope_of(const Graph& graph, const Node& node);

inline constexpr std::string_view kGradientPart = "grad", kAgainPart = "again";
bool has_part(std::string_view scope, std::string_view part);  // "h.3/attn/grad" has "h.3", "attn" and "grad"
// What h.3/attn/matmul is called where it is made again, h.3/attn/again/matmul, and the other way round; a
// name that has no such part stays as it is.
std::string name_again(std::string_view name);
std::string name_before(std::string_view name);

// One path behind the other; either may be empty.
std::string join_scopes(std::string_view outer, std::string_view inner);

// What a dotted name, like that of a parameter, adds to a scope: "c_attn.weight" of "h.3.attn.c_attn.weight"
// in "h.3/attn", and "" of "h.3.attn". The whole name where it is about something else.
std::string_view name_within(std::string_view scope, std::string_view name);

}  // namespace trireme
