// What one part of a training step computes, on whole tensors. Plain data: values, and nodes in an order
// in which they may be executed. Every value is made once: by a node, as an input (given anew at each
// run) or as a state (kept from run to run: weights, moments, running statistics).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/ir/attrs.h"
#include "trireme/ir/op_record.h"
#include "trireme/ir/role.h"
#include "trireme/ir/type.h"

namespace trireme {

struct Value {
  enum class Kind { kInput, kState, kResult };
  std::string name;  // unique in the graph
  TensorType type;
  Kind kind = Kind::kResult;
  int node = -1;            // the node that makes a kResult
  Role role = Role::kNone;  // of a state or an input
  Attrs attrs = {};         // of a state: how it starts (`init` and its parameters), `decay`, …
};

struct Node {
  const OpRecord* op = nullptr;
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  Attrs attrs;
};

// After a run, the state holds the value.
struct Update {
  ValueId state;
  ValueId value;
};

// A value that the caller may read after a run.
struct Output {
  std::string name;
  ValueId value;
  OutputRole role = OutputRole::kWhole;
};

struct Graph {
  std::string name;
  std::vector<Value> values;
  std::vector<Node> nodes;
  std::vector<Update> updates;
  std::vector<Output> outputs;

  const TensorType& type(ValueId value) const { return values.at(value).type; }
  ValueId find(std::string_view name) const;  // kNoValue when there is none
  std::vector<TensorType> types_of(const std::vector<ValueId>& ids) const;
  bool has_input(std::string_view name) const;
  bool has_output(std::string_view name) const;
  // For each value the nodes that read it, in order.
  std::vector<std::vector<int>> readers() const;
};

// The work of one node, and of all nodes of a graph.
Cost cost_of(const Graph& graph, const Node& node);
Cost cost_of(const Graph& graph);

}  // namespace trireme
