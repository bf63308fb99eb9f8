// Integers that number something: rows of a table, classes. An op that is given one beyond would leave it out
// without a word (a part of a table does so by design), so who feeds a graph checks them first.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "trireme/ir/graph.h"

namespace trireme {

struct IdRange {
  int64_t below = 0;               // 0 to below − 1 are there
  std::optional<int64_t> ignored;  // one more that may be there, and counts for nothing
  std::string_view what;           // they number: "rows of a table", "classes"
};

// Of input `input` of a node, in the whole graph or a rank's part of it; nothing where it does not hold ids.
std::optional<IdRange> id_range(const Graph& graph, const Node& node, int input);

}  // namespace trireme
