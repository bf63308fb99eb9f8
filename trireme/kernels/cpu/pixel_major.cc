// See sum_products.h. Blocks of four channels × four pixels are transposed in registers.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/pixel_major.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>

#include "hwy/highway.h"
#include "trireme/kernels/cpu/sum_products.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

void clear(float* to, int64_t count) {
  std::fill_n(to, count, 0.0f);
}

// to[x·channels + c] = from[c·plane + x] for x in [0, count).
void transpose(const float* HWY_RESTRICT from, int64_t plane, int64_t channels, int64_t count,
               float* HWY_RESTRICT to) {
  int64_t c = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::FixedTag<float, 4> d;
  const hn::Repartition<double, decltype(d)> pairs;
  for (; c + 4 <= channels; c += 4) {
    const float* const rows = from + c * plane;
    int64_t x = 0;
    for (; x + 4 <= count; x += 4) {
      const auto a = hn::LoadU(d, rows + x);
      const auto b = hn::LoadU(d, rows + plane + x);
      const auto e = hn::LoadU(d, rows + 2 * plane + x);
      const auto f = hn::LoadU(d, rows + 3 * plane + x);
      const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
      const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
      const auto ef_low = hn::BitCast(pairs, hn::InterleaveLower(d, e, f));
      const auto ef_high = hn::BitCast(pairs, hn::InterleaveUpper(d, e, f));
      float* const target = to + x * channels + c;
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_low, ef_low)), d, target);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_low, ef_low)), d, target + channels);
      hn::StoreU(hn::BitCast(d, hn::InterleaveLower(pairs, ab_high, ef_high)), d, target + 2 * channels);
      hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_high, ef_high)), d, target + 3 * channels);
    }
    for (; x < count; ++x) {
      for (int64_t k = 0; k < 4; ++k) to[x * channels + c + k] = rows[k * plane + x];
    }
  }
#endif
  for (; c < channels; ++c) {
    for (int64_t x = 0; x < count; ++x) to[x * channels + c] = from[c * plane + x];
  }
}

void fill_pixels(const PixelMajor& p, const float* image, float* pixels) {
  const int64_t pitch = p.padded_columns * p.channels;
  const int64_t left = std::min(-p.column_first, p.padded_columns);
  const int64_t end = std::clamp(p.columns - p.column_first, left, p.padded_columns);
  for (int64_t q = 0; q < p.padded_rows; ++q, pixels += pitch) {
    const int64_t row = q + p.row_first;
    if (row < 0 || row >= p.rows) {
      clear(pixels, pitch);
      continue;
    }
    clear(pixels, left * p.channels);
    transpose(image + row * p.columns, p.rows * p.columns, p.channels, end - left,
              pixels + left * p.channels);
    clear(pixels + end * p.channels, pitch - end * p.channels);
  }
}

}  // namespace
}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {

HWY_EXPORT(fill_pixels);
void to_pixel_major(const PixelMajor& layout, const float* image, float* pixels) {
  HWY_DYNAMIC_DISPATCH(fill_pixels)(layout, image, pixels);
}

}  // namespace trireme::cpu
#endif
