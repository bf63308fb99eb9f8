// What the lowering of an ONNX op sees of its node, and the table of those ops.
#pragma once

#include <string_view>
#include <vector>

#include "trireme/onnx/emitter.h"

namespace trireme::onnx {

class Node {
 public:
  Node(const NodeEntry& entry, std::vector<Value> inputs, int64_t opset, Emitter& emitter)
      : e(emitter), opset(opset), entry_(entry), inputs_(std::move(inputs)) {}

  Emitter& e;
  const int64_t opset;

  int inputs() const { return static_cast<int>(inputs_.size()); }
  bool has(int input) const { return input < inputs() && inputs_[input].type != Type::kNone; }
  const Value& in(int input) const;  // an Error where it is left out
  // Whether anybody may read this result.
  bool gives(int output) const {
    return output < static_cast<int>(entry_.outputs.size()) && !entry_.outputs[output].empty();
  }

  bool has_attribute(std::string_view name) const { return find(name) != nullptr; }
  int64_t integer(std::string_view name, int64_t otherwise) const;
  double real(std::string_view name, double otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::vector<int64_t> integers(std::string_view name) const;  // empty where it is not there
  std::vector<float> reals(std::string_view name) const;
  const StoredTensor* tensor(std::string_view name) const;  // null where it is not there

  // Of what is known when the graph is imported.
  const Tensor& constant(int input, std::string_view what) const { return e.constant(in(input), what); }
  std::vector<int64_t> known_integers(int input, std::string_view what) const;
  double known_real(int input, std::string_view what) const;
  // Integers that are an attribute in opsets before `since`, and an input from then on.
  std::vector<int64_t> integers_until(int64_t since, std::string_view attribute, int input) const;
  // A dim of a tensor of this rank, counted from the end where negative.
  static int dim(int64_t axis, int rank);
  int axis(int64_t otherwise) const { return dim(integer("axis", otherwise), in(0).shape.rank()); }

 private:
  const Attribute* find(std::string_view name) const;

  const NodeEntry& entry_;
  std::vector<Value> inputs_;
};

using Values = std::vector<Value>;
using Lowering = Values (*)(Node& node);
struct LoweringEntry {
  std::string_view op;
  Lowering lower;
};

// Groups of ops, one for each file.
std::vector<LoweringEntry> elementwise_ops();
std::vector<LoweringEntry> shape_ops();
std::vector<LoweringEntry> gather_ops();
std::vector<LoweringEntry> reduce_ops();
std::vector<LoweringEntry> product_ops();
std::vector<LoweringEntry> pool_ops();
std::vector<LoweringEntry> norm_ops();
std::vector<LoweringEntry> loss_ops();
std::vector<LoweringEntry> resize_ops();

}  // namespace trireme::onnx
