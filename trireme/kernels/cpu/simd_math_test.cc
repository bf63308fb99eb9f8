// The vector functions of simd_math-inl.h against the C library in double precision, over all magnitudes
// and at the special values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/simd_math_test.cc"
#include "hwy/foreach_target.h"
// foreach_target.h must come first.
#include "hwy/highway.h"
#include "trireme/kernels/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {

template <class F>
void map(const float* x, float* y, size_t count, const F& f) {
  const hn::CappedTag<float, 16> d;
  for (size_t i = 0; i + hn::Lanes(d) <= count; i += hn::Lanes(d)) {
    hn::StoreU(f(d, hn::LoadU(d, x + i)), d, y + i);
  }
}
void exp_all(const float* x, float* y, size_t count) {
  map(x, y, count, [](auto d, auto v) HWY_ATTR { return Exp(d, v); });
}
void log_all(const float* x, float* y, size_t count) {
  map(x, y, count, [](auto d, auto v) HWY_ATTR { return Log(d, v); });
}
void tanh_all(const float* x, float* y, size_t count) {
  map(x, y, count, [](auto d, auto v) HWY_ATTR { return Tanh(d, v); });
}
void sigmoid_all(const float* x, float* y, size_t count) {
  map(x, y, count, [](auto d, auto v) HWY_ATTR { return Sigmoid(d, v); });
}
void erf_all(const float* x, float* y, size_t count) {
  map(x, y, count, [](auto d, auto v) HWY_ATTR { return Erf(d, v); });
}
void gelu_all(const float* x, float* y, size_t count) {
  map(x, y, count, [](auto d, auto v) HWY_ATTR { return Gelu(d, v); });
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {
namespace {

HWY_EXPORT(exp_all);
HWY_EXPORT(log_all);
HWY_EXPORT(tanh_all);
HWY_EXPORT(sigmoid_all);
HWY_EXPORT(erf_all);
HWY_EXPORT(gelu_all);

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Every 1009th bit pattern, which visits all exponents and both signs, and the special values.
std::vector<float> arguments() {
  std::vector<float> x = {0.0f, -0.0f, kInfinity, -kInfinity, NAN, 88.72283f, -103.9f, 1e-42f, 1.0f, -1.0f};
  for (uint64_t bits = 0; bits < 0x100000000u; bits += 1009) {
    const auto word = static_cast<uint32_t>(bits);
    float value;
    std::memcpy(&value, &word, sizeof value);
    x.push_back(value);
  }
  while (x.size() % 16) x.push_back(0.5f);
  return x;
}

// The distance in units in the last place of the expected value, or in `floor` where that is larger.
double distance(float got, double expected, double floor) {
  const auto rounded = static_cast<float>(expected);
  if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) && std::isnan(got) ? 0 : 1e9;
  if (std::isinf(rounded) || got == rounded) return got == rounded || std::abs(got) > 3.4e38f ? 0 : 1e9;
  int exponent;
  std::frexp(rounded, &exponent);
  return std::abs(got - expected) / std::max({std::ldexp(1.0, exponent - 24), 0x1p-149, floor});
}

template <typename F, typename Floor>
double worst_distance(void (*function)(const float*, float*, size_t), const F& exact, const Floor& floor) {
  const std::vector<float> x = arguments();
  std::vector<float> y(x.size());
  function(x.data(), y.data(), x.size());
  double worst = 0;
  float at = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double one = distance(y[i], exact(static_cast<double>(x[i])), floor(x[i]));
    if (one > worst) worst = one, at = x[i];
  }
  ::testing::Test::RecordProperty("worst_at", std::to_string(at));
  return worst;
}
double none(float) {
  return 0;
}

TEST(SimdMath, ExpIsAccurate) {
  EXPECT_LE(worst_distance(
                HWY_DYNAMIC_DISPATCH(exp_all), [](double x) { return std::exp(x); }, none),
            2);
}
TEST(SimdMath, LogIsAccurate) {
  EXPECT_LE(worst_distance(
                HWY_DYNAMIC_DISPATCH(log_all), [](double x) { return std::log(x); }, none),
            3);
}
TEST(SimdMath, TanhIsAccurate) {
  EXPECT_LE(worst_distance(
                HWY_DYNAMIC_DISPATCH(tanh_all), [](double x) { return std::tanh(x); }, none),
            3);
}
TEST(SimdMath, SigmoidIsAccurate) {
  const auto exact = [](double x) { return 1 / (1 + std::exp(-x)); };
  // Below exp(-88.7) the result is subnormal and may be flushed to zero.
  const auto floor = [](float x) { return x < -88 ? 1e-38 : 0.0; };
  EXPECT_LE(worst_distance(HWY_DYNAMIC_DISPATCH(sigmoid_all), exact, floor), 3);
}
TEST(SimdMath, ErfIsAccurate) {
  EXPECT_LE(worst_distance(
                HWY_DYNAMIC_DISPATCH(erf_all), [](double x) { return std::erf(x); }, none),
            3);
}
TEST(SimdMath, GeluIsAccurate) {
  const auto exact = [](double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  };
  const auto floor = [](float x) { return std::abs(x) * 0x1p-23; };
  EXPECT_LE(worst_distance(HWY_DYNAMIC_DISPATCH(gelu_all), exact, floor), 3);
}

}  // namespace
}  // namespace trireme::cpu
#endif  // HWY_ONCE
