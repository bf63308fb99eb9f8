// Copies a graph, or a part of one, into a new graph, and remembers which new value stands for each old one.
// Passes that rewrite graphs are built on it:
//
//   GraphCopy copy(graph, ops, graph.name);
//   copy.declare_all();
//   for (const Node& node : graph.nodes) copy.add(node);  // or copy.set(node.outputs[0], something_else)
//   copy.finish();
//   return copy.take();
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/ir/builder.h"

namespace trireme {

class GraphCopy {
 public:
  // `from` must outlive the copy.
  GraphCopy(const Graph& from, const OpTable& ops, std::string name)
      : from_(from), builder_(ops, std::move(name)), copies_(from.values.size(), kNoValue) {}

  Builder& builder() { return builder_; }
  const Builder& builder() const { return builder_; }
  Graph take() { return builder_.take(); }

  // The new value that stands for an old one. There must be one.
  ValueId operator[](ValueId old) const;
  bool has(ValueId old) const { return copies_[old] != kNoValue; }
  // From now on `copy` stands for `old`. Returns `copy`.
  ValueId set(ValueId old, ValueId copy) { return copies_[old] = copy; }

  // Declares an input or a state as it is in the old graph; `declare_all` declares every one, in order.
  ValueId declare(ValueId old) { return set(old, builder_.declare(from_.values[old])); }
  void declare_all();

  // Copies a node of the old graph. It reads the copies of its inputs, or `inputs`; its results keep their
  // names.
  void add(const Node& node) { add(node, inputs_of(node), node.attrs); }
  std::vector<ValueId> add(const Node& node, std::vector<ValueId> inputs, Attrs attrs);
  std::vector<ValueId> inputs_of(const Node& node) const;

  // Copies updates and outputs. `value_of` finds the new value for what a state becomes or a caller reads,
  // where that is not simply the copy.
  void finish();
  void finish(const std::function<ValueId(ValueId)>& value_of);

 private:
  const Graph& from_;
  Builder builder_;
  std::vector<ValueId> copies_;  // per old value; kNoValue where there is none yet
};

}  // namespace trireme
