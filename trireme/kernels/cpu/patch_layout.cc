// Copies images into the layouts of patch_layout.h. The copy is pure overhead beside the arithmetic of
// a small convolution, so the usual shapes (rows of whole vectors; small square images with "same"
// padding; stride two) move whole vectors.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/patch_layout.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>

#include "hwy/highway.h"
#include "trireme/kernels/cpu/patch_layout.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;

void copy(const float* HWY_RESTRICT from, int64_t count, float* HWY_RESTRICT to) {
  const D d;
  const hn::CappedTag<float, 4> d4;
  int64_t i = 0;
  for (; i + static_cast<int64_t>(hn::Lanes(d)) <= count; i += hn::Lanes(d))
    hn::StoreU(hn::LoadU(d, from + i), d, to + i);
  for (; i + static_cast<int64_t>(hn::Lanes(d4)) <= count; i += hn::Lanes(d4))
    hn::StoreU(hn::LoadU(d4, from + i), d4, to + i);
  for (; i < count; ++i) to[i] = from[i];
}

void clear(float* to, int64_t count) {
  const D d;
  int64_t i = 0;
  for (; i + static_cast<int64_t>(hn::Lanes(d)) <= count; i += hn::Lanes(d))
    hn::StoreU(hn::Zero(d), d, to + i);
  for (; i < count; ++i) to[i] = 0;
}

// to[i] = from[i·step]. May read one element past the last one used.
void copy_strided(const float* HWY_RESTRICT from, int64_t step, int64_t count, float* HWY_RESTRICT to) {
  if (step == 1) return copy(from, count, to);
  int64_t i = 0;
  if (step == 2) {
    const D d;
    for (; i + static_cast<int64_t>(hn::Lanes(d)) <= count; i += hn::Lanes(d)) {
      hn::Vec<D> even, odd;
      hn::LoadInterleaved2(d, from + 2 * i, even, odd);
      hn::StoreU(even, d, to + i);
    }
  }
  for (; i < count; ++i) to[i] = from[i * step];
}

// One row of the source with its padding: `count` columns, the first of them source column `first`.
void pad_row(const float* HWY_RESTRICT row, int64_t columns, int64_t first, int64_t count,
             float* HWY_RESTRICT to) {
  const int64_t left = std::clamp<int64_t>(-first, 0, count);
  const int64_t end = std::clamp<int64_t>(columns - first, left, count);
  for (int64_t i = 0; i < left; ++i) to[i] = 0;
  copy(row + first + left, end - left, to + left);
  for (int64_t i = end; i < count; ++i) to[i] = 0;
}

void fill_rows(const PatchLayout& p, const float* HWY_RESTRICT plane, float* HWY_RESTRICT to) {
  const int64_t pitch = p.padded_columns();
  for (int64_t q = 0; q < p.padded_rows(); ++q, to += pitch) {
    const int64_t row = q + p.row_first;
    if (row < 0 || row >= p.rows)
      clear(to, pitch);
    else
      pad_row(plane + row * p.columns, p.columns, p.column_first, pitch, to);
  }
}

void fill_flat(const PatchLayout& p, const float* HWY_RESTRICT plane, float* HWY_RESTRICT to,
               float* HWY_RESTRICT padded) {
  for (int64_t q = 0; q < p.padded_rows(); ++q) {
    const int64_t row = q + p.row_first;
    const bool outside = row < 0 || row >= p.rows;
    if (!outside) pad_row(plane + row * p.columns, p.columns, p.column_first, p.padded_columns(), padded);
    for (int64_t i = 0; i < p.column_count; ++i) {
      float* const target = to + p.tap(q, i);
      if (outside)
        clear(target, p.out_columns);
      else
        copy_strided(padded + i * p.column_pitch, p.column_step, p.out_columns, target);
    }
  }
}

// Whether one vector holds several whole rows, outputs match source pixels one to one, and the tap
// columns include the centre: then a plane is the source shifted by some elements, with the columns
// that the shift carried over a row's edge set to zero by a mask that is the same for each vector.
bool shifts(const PatchLayout& p) {
  const int64_t lanes = hn::Lanes(D());
  return p.row_step == 1 && p.column_step == 1 && p.column_pitch == 1 && p.out_columns == p.columns &&
         lanes % p.columns == 0 && p.column_first <= 0 && p.column_first + p.column_count > 0 &&
         -p.column_first <= p.columns && p.column_first + p.column_count - 1 <= p.columns;
}

void fill_shifted(const PatchLayout& p, const float* HWY_RESTRICT plane, float* to) {
  const D d;
  const int64_t lanes = hn::Lanes(d);
  const int64_t size = p.rows_per_phase() * p.columns;
  float* const centre = to - p.column_first * size;
  const int64_t above = std::clamp<int64_t>(-p.row_first, 0, p.padded_rows());
  const int64_t below = std::clamp<int64_t>(p.rows - p.row_first, above, p.padded_rows());
  clear(centre, above * p.columns);
  copy(plane + (above + p.row_first) * p.columns, (below - above) * p.columns, centre + above * p.columns);
  clear(centre + below * p.columns, (p.padded_rows() - below) * p.columns);
  HWY_ALIGN float keep[PatchLayout::kVector];
  for (int64_t i = 0; i < p.column_count; ++i) {
    const int64_t shift = i + p.column_first;
    if (shift == 0) continue;
    float* const target = to + i * size;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const int64_t column = lane % p.columns + shift;
      keep[lane] = column >= 0 && column < p.columns ? 1.0f : 0.0f;
    }
    const auto mask = hn::Gt(hn::Load(d, keep), hn::Zero(d));
    int64_t f = 0;
    for (; f + lanes <= size; f += lanes) {
      hn::StoreU(hn::IfThenElseZero(mask, hn::LoadU(d, centre + f + shift)), d, target + f);
    }
    for (; f < size; ++f) target[f] = keep[f % lanes] != 0 ? centre[f + shift] : 0.0f;
  }
}

const float* lay_out(const PatchLayout& p, const float* image, int64_t channels, float* buffer) {
  if (p.is_source()) return image;
  float* const start = buffer + PatchLayout::kVector;
  float* const padded = start + channels * p.plane() + PatchLayout::kVector;
  const bool in_rows = p.in_rows(), shifted = shifts(p);
  for (int64_t c = 0; c < channels; ++c) {
    const float* const plane = image + c * p.rows * p.columns;
    float* const to = start + c * p.plane();
    if (in_rows)
      fill_rows(p, plane, to);
    else if (shifted)
      fill_shifted(p, plane, to);
    else
      fill_flat(p, plane, to, padded);
  }
  return start;
}

}  // namespace
}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {

HWY_EXPORT(lay_out);
const float* lay_out_patches(const PatchLayout& layout, const float* image, int64_t channels, float* buffer) {
  return HWY_DYNAMIC_DISPATCH(lay_out)(layout, image, channels, buffer);
}

}  // namespace trireme::cpu
#endif
