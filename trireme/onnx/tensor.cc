// See tensor.h.
#include "trireme/onnx/tensor.h"

#include <cmath>
#include <limits>

#include "trireme/base/dtype.h"
#include "trireme/base/error.h"

namespace trireme::onnx {
namespace {

// Double to f16 in one rounding would differ from ONNX's, whose arithmetic is f32, in no case that matters.
double rounded(Type type, double value) {
  switch (type) {
    case Type::kF32:
      return static_cast<float>(value);
    case Type::kF16:
      return static_cast<float>(F16(static_cast<float>(value)));
    case Type::kBf16:
      return static_cast<float>(Bf16(static_cast<float>(value)));
    default:
      return value;
  }
}

// The bits that the type has, with its sign.
int64_t wrapped(Type type, int64_t value) {
  switch (type) {
    case Type::kBool:
      return value != 0;
    case Type::kU8:
      return static_cast<uint8_t>(value);
    case Type::kI8:
      return static_cast<int8_t>(value);
    case Type::kU16:
      return static_cast<uint16_t>(value);
    case Type::kI16:
      return static_cast<int16_t>(value);
    case Type::kI32:
      return static_cast<int32_t>(value);
    case Type::kU32:
      return static_cast<uint32_t>(value);
    default:
      return value;
  }
}

}  // namespace

std::string type_name(Type type) {
  constexpr const char* kNames[] = {"undefined", "float32", "uint8",  "int8", "uint16",  "int16",
                                    "int32",     "int64",   "string", "bool", "float16", "float64",
                                    "uint32",    "uint64",  "",       "",     "bfloat16"};
  const int number = static_cast<int>(type);
  if (number < 0 || number > 16 || number == 14 || number == 15) return fmt::format("type {}", number);
  return kNames[number];
}

size_t type_bytes(Type type) {
  switch (type) {
    case Type::kU8:
    case Type::kI8:
    case Type::kBool:
      return 1;
    case Type::kU16:
    case Type::kI16:
    case Type::kF16:
    case Type::kBf16:
      return 2;
    case Type::kF32:
    case Type::kI32:
    case Type::kU32:
      return 4;
    case Type::kI64:
    case Type::kU64:
    case Type::kF64:
      return 8;
    default:
      throw_error("tensors of {} are not supported; real numbers, integers and truth values are",
                  type_name(type));
  }
}

Tensor zeros(Type type, const Shape& shape) {
  type_bytes(type);
  if (shape.elements() > kMostFolded)
    throw_error("a constant of {} elements, shape {}; at most {} are computed while a graph is imported",
                shape.elements(), to_string(shape), kMostFolded);
  Tensor tensor{type, shape, {}, {}};
  if (is_real(type))
    tensor.reals.resize(shape.elements());
  else
    tensor.integers.resize(shape.elements());
  return tensor;
}

Tensor reals(const Shape& shape, std::vector<double> values, Type type) {
  TRIREME_CHECK(shape.elements() == static_cast<int64_t>(values.size()));
  return {type, shape, std::move(values), {}};
}

Tensor integers(std::vector<int64_t> values) {
  return {Type::kI64, {static_cast<int64_t>(values.size())}, {}, std::move(values)};
}

Tensor rearranged(const Tensor& tensor, const Shape& shape, const std::function<int64_t(int64_t)>& from) {
  Tensor result = zeros(tensor.type, shape);
  for (int64_t i = 0; i < result.elements(); ++i) {
    const int64_t source = from(i);
    if (source < 0) continue;
    if (is_real(tensor.type))
      result.reals[i] = tensor.reals[source];
    else
      result.integers[i] = tensor.integers[source];
  }
  return result;
}

void store(Tensor& tensor, int64_t i, double value) {
  if (is_real(tensor.type)) {
    tensor.reals[i] = rounded(tensor.type, value);
  } else if (tensor.type == Type::kBool) {
    tensor.integers[i] = value != 0;
  } else {
    if (!(std::abs(value) < 0x1p63))
      throw_error("{} becomes {} while the graph is imported; such a number has no meaning there", value,
                  type_name(tensor.type));
    tensor.integers[i] = wrapped(tensor.type, static_cast<int64_t>(value));
  }
}

void store(Tensor& tensor, int64_t i, int64_t value) {
  if (is_real(tensor.type))
    tensor.reals[i] = rounded(tensor.type, static_cast<double>(value));
  else
    tensor.integers[i] = wrapped(tensor.type, value);
}

Tensor cast(const Tensor& tensor, Type to) {
  Tensor result = zeros(to, tensor.shape);
  for (int64_t i = 0; i < tensor.elements(); ++i) {
    if (is_real(tensor.type))
      store(result, i, tensor.reals[i]);
    else if (tensor.type == Type::kU64 && is_real(to))
      store(result, i, static_cast<double>(static_cast<uint64_t>(tensor.integers[i])));
    else
      store(result, i, tensor.integers[i]);
  }
  return result;
}

}  // namespace trireme::onnx
