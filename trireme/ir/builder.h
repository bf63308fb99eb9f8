// Builds a Graph node by node; types are inferred and checked as it grows. Models, gradients and passes
// all build with it. Results are named by where they are made (scope.h):
//
//   Builder::Scope block(builder, "h.3");
//   Builder::Scope part(builder, "attn");
//   builder.op("matmul", {x, w});  // h.3/attn/matmul; the next one h.3/attn/matmul~2
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trireme/ir/graph.h"
#include "trireme/ir/name_index.h"

namespace trireme {

class Builder {
 public:
  Builder(const OpTable& ops, std::string graph_name);
  // Goes on building an existing graph.
  Builder(const OpTable& ops, Graph graph);

  // Each throws an Error when something is called so already.
  ValueId input(std::string_view name, TensorType type, Role role = Role::kNone);
  ValueId state(std::string_view name, TensorType type, Role role, Attrs attrs = {});
  ValueId state(std::string_view name, TensorType type) { return state(name, type, Role::kNone); }
  // An input or state like one of another graph, of the same or another type.
  ValueId declare(const Value& like, TensorType type);
  ValueId declare(const Value& like) { return declare(like, like.type); }

  // While it lives, results without a name of their own are made in the scope `name`, within those that are
  // open already. Scopes close in the opposite order.
  class Scope {
   public:
    Scope(Builder& builder, std::string_view name);
    ~Scope() { builder_.scope_ = std::move(outer_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Builder& builder_;
    std::string outer_;
  };
  const std::string& scope() const { return scope_; }

  // All results of an op; `name` is for the first, the others get a suffix. Without a name, it is that of the
  // op in the open scope. A name that is taken gets a number.
  std::vector<ValueId> node(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {},
                            std::string_view name = "");
  // The first result.
  ValueId op(std::string_view op_name, std::vector<ValueId> inputs, Attrs attrs = {},
             std::string_view name = "");

  // The op of another graph's node on these inputs; the results keep their names.
  std::vector<ValueId> copy(const Graph& from, const Node& node, std::vector<ValueId> inputs, Attrs attrs);

  void update(ValueId state, ValueId value);
  void output(std::string_view name, ValueId value, OutputRole role = OutputRole::kWhole);

  ValueId find(std::string_view name) const;  // kNoValue when there is none; at once, unlike Graph::find
  const TensorType& type(ValueId value) const { return graph_.type(value); }
  const Shape& shape(ValueId value) const { return graph_.type(value).shape; }
  const OpTable& ops() const { return ops_; }
  const Graph& graph() const { return graph_; }
  Graph take() { return std::move(graph_); }

 private:
  template <typename NameOfNext>
  std::vector<ValueId> add_node(const OpRecord& record, std::vector<ValueId> inputs, Attrs attrs,
                                const NameOfNext& name_of_next);
  ValueId add_given(std::string_view name, TensorType type, Value::Kind kind, Role role, Attrs attrs);
  ValueId add_value(std::string_view name, TensorType type, Value::Kind kind, int node, Role role = Role::kNone,
                    Attrs attrs = {});
  std::string unique_name(std::string_view wanted, ValueId value);

  const OpTable& ops_;
  Graph graph_;
  std::string scope_;
  NameIndex names_;
  std::unordered_map<std::string, int> numbers_;  // the last one that a name wanted again was given
};

// What a gradient rule sees: the node, the gradients of its results, and a builder for new nodes.
class GradBuilder {
 public:
  GradBuilder(Builder& builder, Node node, std::vector<ValueId> result_gradients, std::vector<bool> wanted)
      : builder_(builder),
        node_(std::move(node)),
        dy_(std::move(result_gradients)),
        wanted_(std::move(wanted)) {}

  ValueId in(int i) const { return node_.inputs.at(i); }
  ValueId out(int i) const { return node_.outputs.at(i); }
  // The gradient of result i; kNoValue when nothing depends on it.
  ValueId dy(int i = 0) const { return dy_.at(i); }
  bool wants(int input) const { return wanted_.at(input); }  // does anyone need this input's gradient?
  int inputs() const { return static_cast<int>(node_.inputs.size()); }
  const Attrs& attrs() const { return node_.attrs; }
  const Shape& shape(ValueId value) const { return builder_.shape(value); }
  Builder& builder() { return builder_; }

  ValueId op(std::string_view name, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return builder_.op(name, std::move(inputs), std::move(attrs));
  }
  std::vector<ValueId> node(std::string_view name, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return builder_.node(name, std::move(inputs), std::move(attrs));
  }

 private:
  Builder& builder_;
  Node node_;  // a copy: the graph grows while the rule runs
  std::vector<ValueId> dy_;
  std::vector<bool> wanted_;
};

}  // namespace trireme
