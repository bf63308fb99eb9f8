// The choice of a way for every node of a graph: nodes have ways with costs, edges cost by the ways of both
// ends, and what ways need of one bounded thing (memory) adds up. Exact: nodes that meet few others are
// eliminated, one table each (graphs of models, with element-wise ops merged, are then solved whole), and
// what is left is searched with a bound. Knows nothing of graphs of ops; plain numbers in, plain numbers out.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace trireme::planner {

struct IntraProblem {
  struct Node {
    std::vector<double> cost;  // by way; at least one, each 0 or more
    std::vector<int64_t> use;  // by way, of the bounded thing; empty: nothing
  };
  struct Edge {
    int from = 0, to = 0;      // different nodes; several edges may join two
    std::vector<double> cost;  // of the ways (from, to), that of `to` the faster; infinity: never together
  };
  std::vector<Node> nodes;
  std::vector<Edge> edges;
  std::optional<int64_t> bound;  // of all nodes' use together
};

struct IntraSolution {
  std::vector<int> way;  // by node
  double cost = 0;
  int64_t use = 0;
  // No solution costs less. The same as cost unless the search was cut short.
  double least_cost = 0;
};

struct IntraOptions {
  int64_t most_steps = 20'000'000;  // of the search for what elimination leaves, and with a bound
};

// Of solutions that cost the same, the one whose ways come first, by number of node. nullopt where ways never
// go together or do not fit. Throws Error for a problem that is none.
std::optional<IntraSolution> solve(const IntraProblem& problem, const IntraOptions& options = {});

// The same by trying everything, for tests.
std::optional<IntraSolution> solve_by_enumeration(const IntraProblem& problem);

}  // namespace trireme::planner
