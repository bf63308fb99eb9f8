// Values of both kinds, and ops on them; see emitter.h.
#include "trireme/onnx/emitter.h"

#include <algorithm>

#include "trireme/base/hash.h"
#include "trireme/onnx/strides.h"

namespace trireme::onnx {
namespace {

std::vector<int64_t> list_of(const Shape& shape) {
  return {shape.begin(), shape.end()};
}

// Whether all slices along the dim are equal.
bool repeats(const Tensor& x, int dim) {
  if (x.shape[dim] < 2) return false;
  std::vector<int64_t> steps = strides_of(x.shape);
  steps[dim] = 0;
  const Tensor same = strided(x, x.shape, steps);
  return same.reals == x.reals && same.integers == x.integers;
}

}  // namespace

Shape broadcast_shape(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> extents(rank, 1);
  for (int d = 0; d < rank; ++d) {
    const int i = d - (rank - a.rank()), j = d - (rank - b.rank());
    const int64_t x = i >= 0 ? a[i] : 1, y = j >= 0 ? b[j] : 1;
    if (x != y && x != 1 && y != 1)
      throw_error("shapes {} and {} can not be broadcast to one", to_string(a), to_string(b));
    extents[d] = x == 1 ? y : x;
  }
  return Shape(std::span<const int64_t>(extents));
}

Shape removed(const Shape& shape, const std::vector<int>& dims) {
  Shape result;
  for (int d = 0; d < shape.rank(); ++d) {
    if (std::ranges::find(dims, d) == dims.end()) result.push_back(shape[d]);
  }
  return result;
}

Shape with_dim(Shape shape, int dim, int64_t extent) {
  shape.set(dim, extent);
  return shape;
}

Value Emitter::known(Tensor tensor) {
  Value value;
  value.type = tensor.type;
  value.shape = tensor.shape;
  value.known = std::make_shared<const Tensor>(std::move(tensor));
  return value;
}

Value Emitter::computed(ValueId id, Type type) const {
  Value value;
  value.type = type;
  value.shape = builder_.shape(id);
  value.id = id;
  return value;
}

const Tensor& Emitter::constant(const Value& value, std::string_view what) {
  if (value.known) return *value.known;
  if (value.stored) {
    auto& decoded = decoded_[value.stored];
    if (!decoded) decoded = std::make_shared<const Tensor>(value.stored->decode());
    return *decoded;
  }
  const std::string message =
      fmt::format("its {} must be known when the graph is imported, and is {}", what,
                  value.input.empty() ? "computed when it runs"
                                      : fmt::format("the input '{}'; make it an initializer", value.input));
  if (!value.input.empty()) throw ConstantNeeded(value.input, message);
  throw_error("{}", message);
}

// Dims along which everything repeats are left out and broadcast again: a mask is then the same state
// whatever the number of rows.
ValueId Emitter::constant_in_graph(const Tensor& tensor) {
  Tensor small = onnx::cast(tensor, Type::kF32);
  const Shape whole = tensor.shape;
  std::vector<int> kept;
  std::vector<int64_t> dims;
  for (int d = whole.rank() - 1; d >= 0; --d) {
    const int left = d;  // dims behind it that repeat were removed from `small` already
    if (!repeats(small, left)) {
      kept.push_back(d);
      continue;
    }
    std::vector<int64_t> steps = strides_of(small.shape);
    steps.erase(steps.begin() + left);
    small = strided(small, removed(small.shape, {left}), steps);
  }
  std::ranges::reverse(kept);
  const uint64_t hash = hash_of(small.reals.data(), small.reals.size() * sizeof(double));
  const std::string name = fmt::format("constant.{}.{:016x}", fmt::join(small.shape.dims(), "x"), hash);
  auto [entry, is_new] = constants_.emplace(name, kNoValue);
  if (is_new) entry->second = around_.constant(name, small);
  if (small.shape == whole) return entry->second;
  return builder_.op("broadcast", {entry->second},
                     {{"shape", list_of(whole)}, {"dims", std::vector<int64_t>(kept.begin(), kept.end())}});
}

ValueId Emitter::id(const Value& value) {
  if (value.known) {
    if (!is_real(value.type) && value.type != Type::kBool)
      throw_error("it computes with real numbers and {} at once", type_name(value.type));
    return constant_in_graph(*value.known);
  }
  if (value.stored) {
    auto [entry, is_new] = parameters_.emplace(value.stored, kNoValue);
    if (is_new) entry->second = around_.parameter(*value.stored);
    return entry->second;
  }
  if (!is_real(value.type) && value.type != Type::kBool)
    throw_error(
        "it computes with {} that are not known when the graph is imported; only real numbers are "
        "computed with when it runs",
        type_name(value.type));
  return value.id;
}

ValueId Emitter::ids(const Value& value) {
  if (value.id == kNoValue || builder_.type(value.id).dtype != DType::i32)
    throw_error("its ids are {}; int32 or int64 that are an input of the graph are expected",
                type_name(value.type));
  return value.id;
}

Value Emitter::op(std::string_view name, const std::vector<Value>& inputs, Attrs attrs) {
  std::vector<ValueId> given;
  bool all_known = true;
  for (const Value& input : inputs) {
    all_known &= input.known != nullptr;
    given.push_back(id(input));
  }
  if (all_known && inputs[0].type != Type::kF32)
    throw_error(
        "it is given {} that are known when the graph is imported; only float32 are computed with here",
        type_name(inputs[0].type));
  return computed(builder_.op(name, std::move(given), std::move(attrs)));
}

}  // namespace trireme::onnx
