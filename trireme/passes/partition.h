// One rank's part of a graph: local shapes, attributes that speak of its part, and a collective wherever a
// value must lie otherwise than it does. All ranks of a mesh get the same nodes in the same order, so their
// collectives meet.
#pragma once

#include <map>
#include <string>

#include "trireme/passes/spread.h"

namespace trireme {

// How values of a rank's graph lie, by their names there.
using NamedLayouts = std::map<std::string, Layout, std::less<>>;

// `spread` is that of the graph, mesh and pins. States have their local type at rest; inputs, results and
// outputs keep their names. `layouts` is filled where it is given.
Graph partition(const Graph& graph, const Mesh& mesh, const Pins& pins, const Spread& spread, int rank,
                const OpTable& ops, NamedLayouts* layouts = nullptr);

}  // namespace trireme
