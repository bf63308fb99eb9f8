// How a graph is spread over a mesh: from the layouts that a plan gives (states, inputs and chosen values), a
// way to split every node and so a layout for every value. Moves as few bytes as it can see, node by node,
// and never moves a state away from the layout in which the plan wants it used. Any choice gives the right
// result, because index rules and the table of layout changes do; the choice is about cost.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/ir/graph.h"
#include "trireme/mesh/change.h"
#include "trireme/mesh/way.h"

namespace trireme {

// How a state lies from step to step, and how it lies while it is used. ZeRO-3: split at rest, replicated in
// use.
struct StateLayout {
  Layout rest;
  Layout use;
};

struct Pins {
  // Replicated where a state is not named. A result may stand here too, one that is made from a state alone,
  // element by element (a cast of a weight): it is made as the state lies at rest and then lies as the state
  // would, so that a plan means the same in every precision.
  // So may an input that is given in one layout and used in another.
  std::map<std::string, StateLayout, std::less<>> states;
  std::map<std::string, Layout, std::less<>> values;   // of inputs (replicated otherwise) and of results
  std::map<std::string, Layout, std::less<>> outputs;  // replicated otherwise
  // Per axis a split, or none; empty: none. What is still to be added up over the axis may be put together
  // split so, where its reader can take it so: along the sequence of a transformer, or along rows between
  // fully connected layers and convolutions.
  std::vector<Placement> scatter;
  // Per axis, or empty: ops with heads (ir/op_record.h) are split by them. Their results go back to the split
  // of `scatter`.
  std::vector<bool> by_heads;
  // What was gathered from states before this value was made is dropped there and gathered anew after it: the
  // last value of the forward part. "": nothing is dropped.
  std::string forward_end;
};

struct NodeSpread {
  Way way;
  std::vector<bool> passes_sums;  // per axis: inputs are addends and so are the results (the op is linear)
  std::vector<Layout> inputs;     // as the node reads them
};

struct Spread {
  std::vector<NodeSpread> nodes;
  // Per value, as it is made: states at rest, inputs as given, results as their node leaves them.
  std::vector<Layout> values;
  // Of results that are brought to another layout as soon as they are made.
  std::map<ValueId, Layout> homes;
};

// How another graph is spread, whose nodes this one has too, and a few more.
struct Alike {
  const Graph& graph;
  const Spread& spread;
};

// Nodes that `alike` has, by the names of their results, are spread as they are there. Throws Error when a
// pinned layout does not fit its value, or nothing leads from how a value is made to how it is pinned.
Spread spread(const Graph& graph, const Mesh& mesh, const Pins& pins, const Alike* alike = nullptr);

// The layout in which a value is pinned, if it is.
const Layout* pinned_layout(const Pins& pins, const Value& value);
StateLayout state_layout(const Pins& pins, const Value& state, const Mesh& mesh);
// Whether a value is a state, or pinned like one.
bool is_like_state(const Pins& pins, const Value& value);

// What pins say of each value of a graph, looked up once: passes ask again and again, and there are many
// names.
class PinnedValues {
 public:
  // `pins` must outlive it.
  PinnedValues(const Graph& graph, const Mesh& mesh, const Pins& pins);
  PinnedValues(const PinnedValues&) = delete;
  PinnedValues& operator=(const PinnedValues&) = delete;

  const Layout* layout(ValueId value) const { return values_[value].layout; }  // pinned_layout()
  bool is_like_state(ValueId value) const { return values_[value].state != nullptr; }
  // As state_layout(): replicated where pins do not name it.
  const StateLayout& state(ValueId value) const {
    return values_[value].state ? *values_[value].state : replicated_;
  }

 private:
  struct One {
    const Layout* layout;
    const StateLayout* state;  // of what is like a state
  };
  const StateLayout replicated_;
  std::vector<One> values_;
};

// Layouts of all operands of a node under its spread, in normal form.
OperandLayouts operand_layouts(const Graph& graph, const Node& node, const NodeSpread& spread,
                               const Mesh& mesh);

// Whether a node's attributes say where its part of an index lies.
bool tells_position(const Node& node, const IndexRule& rule, int index);

// The index rule of a node on whole tensors.
IndexRule rule_of(const Graph& graph, const Node& node);

}  // namespace trireme
