// Tensors that are known when a graph is imported: initializers, constants, and what is folded from them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/shape.h"

namespace trireme::onnx {

// The element types, with ONNX's numbers.
enum class Type : int {
  kNone = 0,
  kF32 = 1,
  kU8 = 2,
  kI8 = 3,
  kU16 = 4,
  kI16 = 5,
  kI32 = 6,
  kI64 = 7,
  kString = 8,
  kBool = 9,
  kF16 = 10,
  kF64 = 11,
  kU32 = 12,
  kU64 = 13,
  kBf16 = 16,
};
std::string type_name(Type type);  // "float32"
constexpr bool is_real(Type type) {
  return type == Type::kF32 || type == Type::kF16 || type == Type::kF64 || type == Type::kBf16;
}
// Bytes of an element in raw data; an Error for strings and types that are not read.
size_t type_bytes(Type type);

// Elements as the widest number of their kind, and always as their type can hold them: real numbers in
// `reals`, integers and truth values in `integers` (unsigned 64 bits as the same bits with a sign).
struct Tensor {
  Type type = Type::kF32;
  Shape shape;
  std::vector<double> reals;
  std::vector<int64_t> integers;

  int64_t elements() const { return shape.elements(); }
  double real(int64_t i) const { return is_real(type) ? reals[i] : static_cast<double>(integers[i]); }
};

// At most so many elements are folded; larger tensors are initializers, or computed when the model runs.
inline constexpr int64_t kMostFolded = int64_t{1} << 26;

Tensor zeros(Type type, const Shape& shape);
Tensor reals(const Shape& shape, std::vector<double> values, Type type = Type::kF32);
Tensor integers(std::vector<int64_t> values);  // int64, of one dim
// Element i of the result is element from(i), or zero where that is negative.
Tensor rearranged(const Tensor& tensor, const Shape& shape, const std::function<int64_t(int64_t)>& from);
Tensor cast(const Tensor& tensor, Type to);
// Stores what was computed from real numbers or integers as the type can hold it.
void store(Tensor& tensor, int64_t i, double value);
void store(Tensor& tensor, int64_t i, int64_t value);

}  // namespace trireme::onnx
