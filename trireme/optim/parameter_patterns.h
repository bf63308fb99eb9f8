// Settings that name parameters by patterns (plan/plan.h): train.freeze, train.init_fresh, optim.groups, …
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/ir/graph.h"

namespace trireme {

// Whether the name fits one of the patterns.
bool fits_any(std::span<const std::string> patterns, std::string_view name);

// Throws an Error that names the setting and the nearest name when a pattern fits none of `names`.
void check_patterns(std::string_view setting, std::span<const std::string> patterns,
                    std::span<const std::string> names, std::string_view what = "parameter");

// Marks the parameters that fit as frozen (ir/trained.h).
Graph with_frozen(Graph graph, std::span<const std::string> patterns);

// The names of a graph's parameters, frozen ones among them.
std::vector<std::string> parameter_names(const Graph& graph);

}  // namespace trireme
