// ONNX ops that reduce dims, and the softmax family.
#include <algorithm>
#include <cmath>

#include "trireme/onnx/node.h"

namespace trireme::onnx {
namespace {

// The dims that a Reduce op goes over; `since` is the opset from which they are an input.
std::vector<int> reduced_dims(Node& n, int64_t since) {
  const int rank = n.in(0).shape.rank();
  std::vector<int> dims;
  for (const int64_t axis : n.integers_until(since, "axes", 1)) dims.push_back(Node::dim(axis, rank));
  if (dims.empty() && n.integer("noop_with_empty_axes", 0) == 0) {
    for (int d = 0; d < rank; ++d) dims.push_back(d);
  }
  std::ranges::sort(dims);
  dims.erase(std::unique(dims.begin(), dims.end()), dims.end());
  return dims;
}

Value product_over(Emitter& e, const Value& given, const std::vector<int>& dims) {
  Value x = given;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    if (x.shape[*dim] == 0) throw_error("a product of no elements");
    while (x.shape[*dim] > 1) {  // first half times second half
      const int64_t half = x.shape[*dim] / 2, odd = x.shape[*dim] % 2;
      Value product = e.multiply(e.slice(x, *dim, 0, half), e.slice(x, *dim, half, half));
      x = odd ? e.concat({product, e.slice(x, *dim, 2 * half, 1)}, *dim) : product;
    }
    x = e.reshape(x, removed(x.shape, {*dim}));
  }
  return x;
}

Value with_kept_dims(Emitter& e, const Value& reduced, const Shape& from, const std::vector<int>& dims) {
  Shape kept = from;
  for (const int dim : dims) kept.set(dim, 1);
  return e.reshape(reduced, kept);
}

// Log of the sum of exponentials, less the largest first.
Value log_sum_exp(Emitter& e, const Value& x, const std::vector<int>& dims) {
  const Value largest = e.reduce(x, "max", dims);
  const Value apart = e.exp(e.subtract(x, with_kept_dims(e, largest, x.shape, dims)));
  return e.add(e.log(e.reduce(apart, "sum", dims)), largest);
}

template <Value (*reduce)(Emitter&, const Value&, const std::vector<int>&), int64_t since = 18>
Values reduction(Node& n) {
  const std::vector<int> dims = reduced_dims(n, since);
  const Value result = reduce(n.e, n.in(0), dims);
  return {n.integer("keepdims", 1) ? with_kept_dims(n.e, result, n.in(0).shape, dims) : result};
}

using Dims = std::vector<int>;
Value sum(Emitter& e, const Value& x, const Dims& dims) {
  return e.reduce(x, "sum", dims);
}
Value mean(Emitter& e, const Value& x, const Dims& dims) {
  return e.reduce(x, "mean", dims);
}
Value maximum(Emitter& e, const Value& x, const Dims& dims) {
  return e.reduce(x, "max", dims);
}
Value minimum(Emitter& e, const Value& x, const Dims& dims) {
  return e.negate(e.reduce(e.negate(x), "max", dims));
}
Value squares(Emitter& e, const Value& x, const Dims& dims) {
  return e.reduce(e.multiply(x, x), "sum", dims);
}
Value length(Emitter& e, const Value& x, const Dims& dims) {
  return e.sqrt(squares(e, x, dims));
}
Value log_sum(Emitter& e, const Value& x, const Dims& dims) {
  return e.log(e.reduce(x, "sum", dims));
}
Value absolutes(Emitter& e, const Value& x, const Dims& dims) {
  return e.reduce(e.add(e.relu(x), e.relu(e.negate(x))), "sum", dims);
}

Value log_softmax_of(Emitter& e, const Value& x, int dim) {
  return e.subtract(x, with_kept_dims(e, log_sum_exp(e, x, {dim}), x.shape, {dim}));
}

// Before opset 13 everything from the axis on is one dim.
template <Value (*along)(Emitter&, const Value&, int)>
Values softmax_like(Node& n) {
  const Value& x = n.in(0);
  if (n.opset >= 13) return {along(n.e, x, n.axis(-1))};
  const int axis = n.axis(1);
  const Shape flat{x.shape.elements(0, axis), x.shape.elements(axis, x.shape.rank())};
  return {n.e.reshape(along(n.e, n.e.reshape(x, flat), 1), x.shape)};
}
Value softmax_of(Emitter& e, const Value& x, int dim) {
  return e.softmax(x, dim);
}

// Batch, channel and places: over the places, of which one is left for each dim.
template <Value (*reduce)(Emitter&, const Value&, const Dims&)>
Values global_pool(Node& n) {
  Dims dims;
  for (int d = 2; d < n.in(0).shape.rank(); ++d) dims.push_back(d);
  return {with_kept_dims(n.e, reduce(n.e, n.in(0), dims), n.in(0).shape, dims)};
}

Values mean_variance(Node& n) {
  const Value& x = n.in(0);
  Dims dims;
  for (const int64_t axis : n.has_attribute("axes") ? n.integers("axes") : std::vector<int64_t>{0, 2, 3})
    dims.push_back(Node::dim(axis, x.shape.rank()));
  std::ranges::sort(dims);
  const Value apart = n.e.subtract(x, with_kept_dims(n.e, n.e.reduce(x, "mean", dims), x.shape, dims));
  const Value variance = n.e.reduce(n.e.multiply(apart, apart), "mean", dims);
  return {n.e.divide(apart, with_kept_dims(n.e, n.e.sqrt(n.e.affine(variance, 1, 1e-9)), x.shape, dims))};
}

}  // namespace

std::vector<LoweringEntry> reduce_ops() {
  return {{"ReduceSum", reduction<sum, 13>},
          {"ReduceMean", reduction<mean>},
          {"ReduceMax", reduction<maximum>},
          {"ReduceMin", reduction<minimum>},
          {"ReduceProd", reduction<product_over>},
          {"ReduceL1", reduction<absolutes>},
          {"ReduceL2", reduction<length>},
          {"ReduceSumSquare", reduction<squares>},
          {"ReduceLogSum", reduction<log_sum>},
          {"ReduceLogSumExp", reduction<log_sum_exp>},
          {"Softmax", softmax_like<softmax_of>},
          {"LogSoftmax", softmax_like<log_softmax_of>},
          {"GlobalAveragePool", global_pool<mean>},
          {"GlobalMaxPool", global_pool<maximum>},
          {"MeanVarianceNormalization", mean_variance}};
}

}  // namespace trireme::onnx
