// A graph that works row by row on tensors of one shape, in pieces of some rows: as the update of a large
// parameter does, whose states rest in files and need not be in memory all at once.
#pragma once

#include <vector>

#include "trireme/ir/graph.h"

namespace trireme {

// Graphs that do the same after one another, each on windows (ir/window.h) of up to `rows` rows of the states
// that have as many rows and dims as `like`. The last has the graph's name and outputs, the others
// NAME.rows0, NAME.rows1, … One graph, as it was, where an op mixes rows, or is a collective.
std::vector<Graph> in_row_pieces(const Graph& graph, const Shape& like, int64_t rows, const OpTable& ops);

}  // namespace trireme
