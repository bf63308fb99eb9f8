// See format_limits.h. Conversions are monotone, so each limit is found by bisection over the bits of floats,
// which ascend as positive floats do.
#include "trireme/base/format_limits.h"

#include <cmath>

#include "trireme/base/error.h"

namespace trireme {
namespace {

float float_of(uint32_t bits) {
  return std::bit_cast<float>(bits);
}

// The first float from `low` up to `high` for which `holds`, which does for all above it and for `high`.
template <typename Holds>
float first_float(float low, float high, const Holds& holds) {
  uint32_t from = std::bit_cast<uint32_t>(low), to = std::bit_cast<uint32_t>(high);
  while (from < to) {
    const uint32_t middle = from + (to - from) / 2;
    if (holds(float_of(middle)))
      to = middle;
    else
      from = middle + 1;
  }
  return float_of(to);
}

float before(float value) {
  return float_of(std::bit_cast<uint32_t>(value) - 1);
}

}  // namespace

float rounded_to(DType format, float value) {
  switch (format) {
    case DType::f32:
      return value;
    case DType::bf16:
      return static_cast<float>(Bf16(value));
    case DType::f16:
      return static_cast<float>(F16(value));
    default:
      throw_error("rounding to {} is not known; f32, bf16 or f16 expected", name(format));
  }
}

FormatLimits limits_of(DType format) {
  const auto rounded = [&](float value) { return rounded_to(format, value); };
  FormatLimits limits{};
  limits.epsilon = rounded(first_float(1, 2, [&](float x) { return rounded(x) > 1; })) - 1;
  limits.overflows_from = first_float(1, HUGE_VALF, [&](float x) { return std::isinf(rounded(x)); });
  limits.largest = rounded(before(limits.overflows_from));
  const float first = first_float(0, 1, [&](float x) { return rounded(x) > 0; });
  limits.smallest = rounded(first);
  limits.underflows_up_to = before(first);
  // Powers of two that have their next number as far above them as 1 has, relatively.
  for (float power = 1; rounded(power * (1 + limits.epsilon)) > power && power > 0; power /= 2)
    limits.smallest_normal = power;
  for (limits.counts_up_to = 1; rounded(limits.counts_up_to + 1) > limits.counts_up_to;)
    limits.counts_up_to *= 2;
  return limits;
}

}  // namespace trireme
