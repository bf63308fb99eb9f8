// What passes share that put one node in the place of several: who reads a value, and how a node takes the
// place of two. The joined node stands where the later one stood, so everything it reads is there.
#pragma once

#include <string_view>
#include <vector>

#include "trireme/ir/graph.h"

namespace trireme {

class NodeJoiner {
 public:
  NodeJoiner(Graph graph, const OpTable& ops);

 protected:
  Graph result();

  Node& node(int n) { return graph_.nodes[n]; }
  const Node& node(int n) const { return graph_.nodes[n]; }
  bool is(int n, std::string_view op) const { return graph_.nodes[n].op->name == op; }

  // By nodes, and is neither an output nor what a state becomes.
  bool read_only_by(ValueId value, const std::vector<int>& nodes) const {
    return !kept_[value] && readers_[value] == nodes;
  }
  bool read_only_by(ValueId value, int n) const { return read_only_by(value, std::vector<int>{n}); }
  // Nobody reads `value` before node n, where it will be made after joining.
  bool not_read_before(ValueId value, int n) const {
    return readers_[value].empty() || readers_[value].front() >= n;
  }
  // The node of this op that makes `value`, or −1; and for node n alone.
  int made_by(ValueId value, std::string_view op) const {
    const int m = graph_.values[value].node;
    return m >= 0 && !removed_[m] && is(m, op) ? m : -1;
  }
  int made_for(int n, ValueId value, std::string_view op) const {
    return read_only_by(value, n) ? made_by(value, op) : -1;
  }

  // `joined` takes the place of node n; `earlier` goes.
  void replace(int n, int earlier, Node joined);
  void remove(int n);  // what it made is read by none that stay

  Graph graph_;
  const OpTable& ops_;
  std::vector<bool> removed_;
  std::vector<std::vector<int>> readers_;
  std::vector<bool> kept_;  // outputs and updates
};

}  // namespace trireme
