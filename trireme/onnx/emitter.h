// What ONNX's ops are lowered with. Every operation takes values that are known while the graph is imported
// and values that are computed when it runs. If all are known the result is known too; otherwise ops of
// docs/ops.md are added to the graph. So one description of an ONNX op serves for folding and for lowering.
//
// When the model runs, real numbers and truth values (0 and 1) are tensors of the model's number format;
// int32 and int64 are ids, i32, that can be moved about and used to choose rows of a table, no more.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/ir/builder.h"
#include "trireme/onnx/file.h"
#include "trireme/onnx/tensor.h"

namespace trireme::onnx {

// Something must be known while the graph is imported, and is an input of the graph.
class ConstantNeeded : public Error {
 public:
  ConstantNeeded(const std::string& input, const std::string& message) : Error(message), input(input) {}
  std::string input;
};

struct Value {
  Type type = Type::kNone;
  Shape shape;
  std::shared_ptr<const Tensor> known;  // or
  const StoredTensor* stored =
      nullptr;            // an initializer of real numbers: a parameter once it is computed with
  ValueId id = kNoValue;  // of the graph; none where it is known or only stored
  std::string input;      // the name of the graph's input that it is, if any
};

// What surrounds the ops of a graph, and differs between training and plain evaluation.
struct Surroundings {
  std::function<ValueId(const StoredTensor& tensor)> parameter;
  // A tensor that is not trained; equal tensors have equal names.
  std::function<ValueId(const std::string& name, const Tensor& tensor)> constant;
  // Batch normalisation with statistics of the batch; null where running ones are always used.
  struct BatchNorm {
    ValueId x, gain, bias;
    const StoredTensor *mean, *variance;
    double eps, momentum;  // of the new value
  };
  std::function<ValueId(const BatchNorm& norm)> batch_norm;
  // Null where nothing is dropped.
  std::function<ValueId(ValueId x, double rate)> dropout;
};

// Where everything is known.
struct Fold1 {
  double (*real)(double);
  int64_t (*integer)(int64_t) = nullptr;  // null: integers are not folded
};
struct Fold2 {
  double (*real)(double, double);
  int64_t (*integer)(int64_t, int64_t) = nullptr;
};

class Emitter {
 public:
  Emitter(Builder& builder, const Surroundings& around) : builder_(builder), around_(around) {}

  Builder& builder() { return builder_; }
  const Surroundings& around() const { return around_; }

  static Value known(Tensor tensor);
  static Value scalar(double value) { return known(reals({}, {value})); }
  Value computed(ValueId id, Type type = Type::kF32) const;
  // Throws ConstantNeeded or an Error where `what` is computed.
  const Tensor& constant(const Value& value, std::string_view what);
  static bool is_known(const Value& value) { return value.known != nullptr; }
  // In the graph, as real numbers; ids only by ids().
  ValueId id(const Value& value);
  ValueId ids(const Value& value);

  // `op` is an op of one input; an op that does not exist ("") can only be folded.
  Value unary(const Value& x, std::string_view op, Fold1 fold);
  Value affine(const Value& x, double scale, double shift);
  // Of shapes that are broadcast both ways. `op` as above.
  Value binary(const Value& a, const Value& b, std::string_view op, Fold2 fold);
  Value add(const Value& a, const Value& b);
  Value subtract(const Value& a, const Value& b);
  Value multiply(const Value& a, const Value& b);
  Value divide(const Value& a, const Value& b);
  Value compare(const Value& a, const Value& b, std::string_view kind);  // lt le gt ge eq ne
  Value select(const Value& condition, const Value& a, const Value& b);
  Value relu(const Value& x);
  Value exp(const Value& x);
  Value log(const Value& x);
  Value sqrt(const Value& x);
  Value tanh(const Value& x);
  Value sigmoid(const Value& x);
  Value negate(const Value& x) { return affine(x, -1, 0); }
  Value cast(const Value& x, Type to);

  Value reshape(const Value& x, const Shape& shape);
  Value transpose(const Value& x, const std::vector<int64_t>& perm);
  Value expand(const Value& x, const Shape& shape);  // to a shape that x can be broadcast to
  Value slice(const Value& x, int dim, int64_t start, int64_t size);
  Value concat(const std::vector<Value>& parts, int dim);
  Value pad(const Value& x, int dim, int64_t low, int64_t high, double value = 0);
  Value take(const Value& x, int dim, const std::vector<int64_t>& indices);  // x's slices at the indices
  // Over ascending dims, which go; of kinds sum, max and mean.
  Value reduce(const Value& x, std::string_view op, const std::vector<int>& dims);
  Value softmax(const Value& x, int dim);
  // Matrix products of x […, m, k] and y […, k, n].
  Value matmul(const Value& x, const Value& y);
  // x's dim `dim` of k elements, times a known matrix [k, n].
  Value along(const Value& x, int dim, const Tensor& matrix);

  // Any op on values of the graph; the first result.
  Value op(std::string_view name, const std::vector<Value>& inputs, Attrs attrs = {});

 private:
  Value moved(const Value& x, std::string_view op, Attrs attrs);
  ValueId constant_in_graph(const Tensor& tensor);

  Builder& builder_;
  const Surroundings& around_;
  std::map<const StoredTensor*, std::shared_ptr<const Tensor>> decoded_;
  std::map<const StoredTensor*, ValueId> parameters_;
  std::map<std::string, ValueId> constants_;
};

// The shape of both after broadcasting; an Error where they do not fit.
Shape broadcast_shape(const Shape& a, const Shape& b);
Shape removed(const Shape& shape, const std::vector<int>& dims);
Shape with_dim(Shape shape, int dim, int64_t extent);

}  // namespace trireme::onnx
