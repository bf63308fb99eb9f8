// Where a model is cut into the chunks of a pipeline. It is cut between its units, the outermost scopes of
// the forward part (embed, h.0, h.1, …, head, loss), in the order in which they are computed.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/ir/graph.h"

namespace trireme {

// What a node costs, FLOPs or bytes that it touches in memory, whichever take longer: by the op's record, for
// no machine in particular. One FLOP is the unit.
double weighed_cost(const Graph& graph, const Node& node);

// The parts that a model can be cut between, in order, and what the forward part of each costs.
struct Units {
  std::vector<std::string> names;
  std::vector<double> costs;
};
Units units_of(const Graph& forward);

// The first units of the second and every later run, where units of these costs are split into `runs` runs
// whose largest is as small as can be. There are no fewer units than runs.
std::vector<size_t> balanced_begins(const std::vector<double>& costs, int runs);
// The same where a unit costs costs[r][unit] in run r: stages on devices that are not equally fast.
std::vector<size_t> balanced_begins(const std::vector<std::vector<double>>& costs);

struct Cut {
  int chunks = 1;
  std::vector<std::string> units;
  std::map<std::string, int, std::less<>> chunk_of;  // unit -> chunk; ascends in the order of the units

  // The chunk that a result was named in: −1 where its name tells nothing.
  int chunk_of_name(std::string_view name) const;
};

// Chunks whose costs (op records) are as even as units allow: the largest is as small as can be. Throws Error
// when there are fewer units than chunks.
Cut balanced_cut(const Graph& forward, int chunks);
// Chunk i + 1 begins with the unit `begins[i]`. Throws Error for what is no unit, or not in their order.
Cut cut_at(const Graph& forward, int chunks, const std::vector<std::string>& begins);

// As many chunks as there are units with about as much weight of their own as the largest; what has less goes
// with its neighbours. For ranks that keep the weights of one chunk in memory at a time.
Cut cut_by_weights(const Graph& forward);

// For each node: whether it is made of states alone (casts and gathers of weights), so that whoever needs it
// can make it.
std::vector<bool> made_of_states(const Graph& graph);

// The same graph, in which each chunk makes for itself what it needs of states alone: then the gradient of a
// weight that several chunks read (a tied head) is one addend for each of them.
Graph with_own_casts(const Graph& forward, const Cut& cut, const OpTable& ops);

}  // namespace trireme
