// Number formats of tensors, and the two 16-bit storage types. Arithmetic is never done in a 16-bit
// type: kernels widen to float, compute, and round once when they store.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string_view>

namespace trireme {

enum class DType : uint8_t { f64, f32, f16, bf16, i64, i32, u8 };

constexpr size_t size_of(DType dtype) {
  constexpr size_t sizes[] = {8, 4, 2, 2, 8, 4, 1};
  return sizes[static_cast<int>(dtype)];
}
constexpr bool is_float(DType dtype) {
  return dtype <= DType::bf16;
}

std::string_view name(DType dtype);                       // "f32"
std::optional<DType> parse_dtype(std::string_view text);  // the inverse of name()
std::ostream& operator<<(std::ostream& out, DType dtype);

// bfloat16: the upper half of a float, rounded to nearest even.
struct Bf16 {
  uint16_t bits = 0;
  Bf16() = default;
  explicit Bf16(float value) {
    const uint32_t word = std::bit_cast<uint32_t>(value);
    const bool nan = (word & 0x7fffffffu) > 0x7f800000u;
    bits = nan ? static_cast<uint16_t>((word >> 16) | 0x40)
               : static_cast<uint16_t>((word + 0x7fff + ((word >> 16) & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

// IEEE binary16, rounded to nearest even.
struct F16 {
  uint16_t bits = 0;
  F16() = default;
  explicit F16(float value);
  explicit operator float() const;
};

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<F16> {
  static constexpr DType value = DType::f16;
};
template <>
struct DTypeOf<Bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <typename T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

}  // namespace trireme
