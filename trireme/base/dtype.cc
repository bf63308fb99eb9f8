// Names of number formats and the conversions of binary16.
#include "trireme/base/dtype.h"

#include <cmath>

#include "trireme/base/enum_name.h"

namespace trireme {
namespace {

constexpr EnumNames<7> kNames = {"f64", "f32", "f16", "bf16", "i64", "i32", "u8"};

}  // namespace

std::string_view name(DType dtype) {
  return kNames[static_cast<int>(dtype)];
}

std::optional<DType> parse_dtype(std::string_view text) {
  return enum_named<DType>(kNames, text);
}

std::ostream& operator<<(std::ostream& out, DType dtype) {
  return out << name(dtype);
}

F16::F16(float value) {
  const uint32_t word = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((word >> 16) & 0x8000);
  const uint32_t magnitude = word & 0x7fffffff;
  if (magnitude > 0x7f800000) {  // NaN stays quiet
    bits = sign | 0x7e00;
  } else if (magnitude >= 0x477ff000) {  // rounds to 65536 or more: infinity
    bits = sign | 0x7c00;
  } else if (magnitude < 0x38800000) {
    // Subnormal: adding 0.5 places the value's last kept bit at the end of the mantissa, and the
    // addition itself rounds to nearest even.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    bits = sign | static_cast<uint16_t>(std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(0.5f));
  } else {
    const uint32_t odd = (magnitude >> 13) & 1;
    bits = sign | static_cast<uint16_t>((magnitude - 0x38000000 + 0xfff + odd) >> 13);
  }
}

F16::operator float() const {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000 | ((magnitude & 0x3ff) << 13));
  if (magnitude >= 0x400) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000));
  const float value = static_cast<float>(magnitude) * 0x1p-24f;
  return sign ? -value : value;
}

}  // namespace trireme
