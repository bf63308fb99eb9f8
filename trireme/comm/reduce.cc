// Element-wise reductions; see reduce.h.
#include "trireme/comm/reduce.h"

#include <algorithm>
#include <type_traits>

#include "trireme/base/error.h"

namespace trireme::comm {
namespace {

template <typename T>
constexpr bool kNarrow = std::is_same_v<T, F16> || std::is_same_v<T, Bf16>;

// The type in which T is computed.
template <typename T>
using Wide = std::conditional_t<kNarrow<T>, float, T>;

struct Sum {
  template <typename T>
  static T apply(T a, T b) {
    // Integers wrap around, as everywhere; signed overflow would be undefined.
    if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(a) + static_cast<U>(b));
    }
    return static_cast<T>(a + b);
  }
};
struct Product {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
    }
    return static_cast<T>(a * b);
  }
};
// A NaN on either side is the result, whichever side it is on: a maximum that lost one would hide a broken
// rank.
struct Max {
  template <typename T>
  static T apply(T a, T b) {
    return a > b || a != a ? a : b;
  }
};
struct Min {
  template <typename T>
  static T apply(T a, T b) {
    return a < b || a != a ? a : b;
  }
};

template <typename T, typename Op>
void combine_into(std::byte* into, const std::byte* a, const std::byte* b, size_t bytes) {
  T* to = reinterpret_cast<T*>(into);
  const T* left = reinterpret_cast<const T*>(a);
  const T* right = reinterpret_cast<const T*>(b);
  for (size_t i = 0; i < bytes / sizeof(T); ++i) {
    to[i] = T(Op::apply(static_cast<Wide<T>>(left[i]), static_cast<Wide<T>>(right[i])));
  }
}

template <typename T, typename Op>
void combine(std::byte* into, const std::byte* from, size_t bytes) {
  combine_into<T, Op>(into, into, from, bytes);
}

// Calls body with a value of the format's type and of the op's.
template <typename Body>
auto with_types(DType dtype, ReduceOp op, const Body& body) {
  const auto with_op = [&](auto value) {
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::average:
        return body(value, Sum());
      case ReduceOp::max:
        return body(value, Max());
      case ReduceOp::min:
        return body(value, Min());
      case ReduceOp::product:
        return body(value, Product());
    }
    throw_error("reduction {} is unknown", static_cast<int>(op));
  };
  switch (dtype) {
    case DType::f64:
      return with_op(double{});
    case DType::f32:
      return with_op(float{});
    case DType::f16:
      return with_op(F16{});
    case DType::bf16:
      return with_op(Bf16{});
    case DType::i64:
      return with_op(int64_t{});
    case DType::i32:
      return with_op(int32_t{});
    case DType::u8:
      return with_op(uint8_t{});
  }
  throw_error("number format {} is unknown", static_cast<int>(dtype));
}

template <typename T>
void scale_as(std::byte* data, size_t bytes, int ranks) {
  T* values = reinterpret_cast<T*>(data);
  const auto factor = Wide<T>(1) / static_cast<Wide<T>>(ranks);
  for (size_t i = 0; i < bytes / sizeof(T); ++i) values[i] = T(static_cast<Wide<T>>(values[i]) * factor);
}

}  // namespace

Combine combine_function(DType dtype, ReduceOp op) {
  return with_types(dtype, op, [](auto value, auto function) -> Combine {
    return combine<decltype(value), decltype(function)>;
  });
}

CombineInto combine_into_function(DType dtype, ReduceOp op) {
  return with_types(dtype, op, [](auto value, auto function) -> CombineInto {
    return combine_into<decltype(value), decltype(function)>;
  });
}

void scale(std::byte* data, DType dtype, size_t bytes, int ranks) {
  switch (dtype) {
    case DType::f64:
      return scale_as<double>(data, bytes, ranks);
    case DType::f32:
      return scale_as<float>(data, bytes, ranks);
    case DType::f16:
      return scale_as<F16>(data, bytes, ranks);
    case DType::bf16:
      return scale_as<Bf16>(data, bytes, ranks);
    default:
      check_reducible(dtype, ReduceOp::average);
  }
}

void check_reducible(DType dtype, ReduceOp op) {
  if (op == ReduceOp::average && !is_float(dtype)) {
    throw_error("average of {}: integers have no exact average; use sum and divide, or a float format",
                name(dtype));
  }
}

}  // namespace trireme::comm
