// The update in parts, so that the optimizer's states can rest in files: each part needs the states of some
// parameters alone, which are read before it and written back behind it. What does not read them (norms, the
// scale of the gradients) is a part of its own, before the others.
#pragma once

#include <string>
#include <vector>

#include "trireme/ir/graph.h"

namespace trireme {

struct UpdatePart {
  Graph graph;
  std::vector<std::string> states;  // that it reads from files; none: the first part
};

// Parts in the order in which they are run; the last has the outputs and the name of the whole, the others
// are called update.0, update.1, … All have all inputs. Parts have as much as the largest parameter's states,
// or a share of all. `like` decides who goes together: the update of another rank, whose shapes may differ. A
// value that a later part reads is left in a state (kept.NAME). Throws Error when a part would read what an
// earlier one has renewed.
std::vector<UpdatePart> split_update(const Graph& update, const Graph& like, const OpTable& ops);

}  // namespace trireme
