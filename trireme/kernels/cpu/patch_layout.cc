// Copies images into the layouts of patch_layout.h. The copy is pure overhead beside the arithmetic of
// a small convolution, so the usual shapes (rows of whole vectors; small square images with "same"
// padding; stride two) move whole vectors.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/patch_layout.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>

#include "hwy/highway.h"
#include "trireme/kernels/cpu/copy_row-inl.h"
#include "trireme/kernels/cpu/patch_layout.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Zeros, rounded up to whole vectors.
HWY_INLINE void clear_vectors(float* to, int64_t count) {
  const int64_t lanes = hn::Lanes(D());
  for (int64_t i = 0; i < count; i += lanes) {
    hn::StoreU(hn::Zero(D()), D(), to + i);
    keep_loop();
  }
}
HWY_INLINE void clear(float* to, int64_t count) {
  const int64_t lanes = hn::Lanes(D());
  const int64_t whole = count / lanes * lanes;
  clear_vectors(to, whole);
  for (int64_t i = whole; i < count; ++i) {
    to[i] = 0;
    keep_loop();
  }
}

// to[i] = from[i·step] for i in [0, count), rounded up to whole vectors: reads up to `step` vectors and
// writes up to one vector past the end.
HWY_INLINE void pick_vectors(const float* HWY_RESTRICT from, int64_t step, int64_t count,
                             float* HWY_RESTRICT to) {
  const D d;
  const int64_t lanes = hn::Lanes(d);
  if (step == 1) {
    for (int64_t i = 0; i < count; i += lanes) {
      hn::StoreU(hn::LoadU(d, from + i), d, to + i);
      keep_loop();
    }
    return;
  }
#if HWY_TARGET != HWY_SCALAR
  if (step == 2) {
    for (int64_t i = 0; i < count; i += lanes) {
      const V low = hn::LoadU(d, from + 2 * i), high = hn::LoadU(d, from + 2 * i + lanes);
      hn::StoreU(hn::ConcatEven(d, high, low), d, to + i);
    }
    return;
  }
#endif
  for (int64_t i = 0; i < count; ++i) to[i] = from[i * step];
}

// One row of the source with its padding: `count` columns, the first of them source column `first`.
// Zeros are stored as whole vectors and so may reach up to a vector past the end.
HWY_INLINE void pad_row(const float* HWY_RESTRICT row, int64_t columns, int64_t first, int64_t count,
                        float* HWY_RESTRICT to) {
  const int64_t left = std::clamp<int64_t>(-first, 0, count);
  const int64_t end = std::clamp<int64_t>(columns - first, left, count);
  clear_vectors(to, left);
  copy(row + first + left, end - left, to + left);
  clear_vectors(to + end, count - end);
}

// What is stored past the end of a row is overwritten by the next one, or lies in the slack at the end.
void fill_rows(const PatchLayout& p, const float* HWY_RESTRICT plane, float* HWY_RESTRICT to) {
  const int64_t pitch = p.padded_columns(), padded_rows = p.padded_rows();
  for (int64_t q = 0; q < padded_rows; ++q, to += pitch) {
    const int64_t row = q + p.row_first;
    if (row < 0 || row >= p.rows)
      clear_vectors(to, pitch);
    else
      pad_row(plane + row * p.columns, p.columns, p.column_first, pitch, to);
  }
}

// Pads a few planes first and then picks columns from them: reading back a row that was just stored, at
// another alignment, would wait for the stores. Targets are filled in the order of their addresses, so
// that what is stored past the end of one is overwritten by the next.
void fill_flat(const PatchLayout& p, const float* HWY_RESTRICT planes, int64_t channels,
               float* HWY_RESTRICT to, float* HWY_RESTRICT padded) {
  const int64_t pitch = p.padded_columns(), padded_rows = p.padded_rows(), per_phase = p.rows_per_phase();
  const int64_t padded_plane = padded_rows * pitch;
  for (int64_t c = 0; c < channels; ++c)
    fill_rows(p, planes + c * p.rows * p.columns, padded + c * padded_plane);
  for (int64_t c = 0; c < channels; ++c, padded += padded_plane) {
    for (int64_t column = 0; column < p.column_count; ++column) {
      for (int64_t phase = 0; phase < p.row_step; ++phase) {
        const float* from = padded + phase * pitch + column * p.column_pitch;
        for (int64_t i = 0; i < per_phase; ++i, from += p.row_step * pitch, to += p.out_columns) {
          if (phase + i * p.row_step < padded_rows) pick_vectors(from, p.column_step, p.out_columns, to);
        }
      }
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

void fill_shifted(const PatchLayout& p, const float* HWY_RESTRICT image, int64_t channels, float* start) {
  const D d;
  const int64_t lanes = hn::Lanes(d), padded_rows = p.padded_rows();
  const int64_t size = padded_rows * p.columns, plane = p.plane();
  float* const centre = start - p.column_first * size;
  const int64_t above = std::clamp<int64_t>(-p.row_first, 0, padded_rows);
  const int64_t below = std::clamp<int64_t>(p.rows - p.row_first, above, padded_rows);
  for (int64_t c = 0; c < channels; ++c) {
    float* const to = centre + c * plane;
    const float* const from = image + (c * p.rows + above + p.row_first) * p.columns;
    clear(to, above * p.columns);
    copy(from, (below - above) * p.columns, to + above * p.columns);
    clear(to + below * p.columns, (padded_rows - below) * p.columns);
  }
  HWY_ALIGN float keep[PatchLayout::kVector];
  for (int64_t i = 0; i < p.column_count; ++i) {
    const int64_t shift = i + p.column_first;
    if (shift == 0) continue;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      const int64_t column = lane % p.columns + shift;
      keep[lane] = column >= 0 && column < p.columns ? 1.0f : 0.0f;
    }
    const auto mask = hn::Gt(hn::Load(d, keep), hn::Zero(d));
    for (int64_t c = 0; c < channels; ++c) {
      const float* const from = centre + c * plane + shift;
      float* const to = start + c * plane + i * size;
      int64_t f = 0;
      for (; f + lanes <= size; f += lanes) {
        hn::StoreU(hn::IfThenElseZero(mask, hn::LoadU(d, from + f)), d, to + f);
      }
      for (; f < size; ++f) to[f] = keep[f % lanes] != 0 ? from[f] : 0.0f;
    }
  }
}

const float* lay_out(const PatchLayout& p, const float* image, int64_t channels, float* buffer) {
  if (p.is_source()) return image;
  const int64_t plane = p.rows * p.columns;
  float* const start = buffer + PatchLayout::kVector;
  if (p.in_rows()) {
    for (int64_t c = 0; c < channels; ++c) fill_rows(p, image + c * plane, start + c * p.plane());
  } else if (shifts(p)) {
    fill_shifted(p, image, channels, start);
  } else {
    float* const padded = start + channels * p.plane() + PatchLayout::kVector;
    for (int64_t c = 0; c < channels; c += PatchLayout::kPaddedChannels) {
      fill_flat(p, image + c * plane, std::min(PatchLayout::kPaddedChannels, channels - c),
                start + c * p.plane(), padded);
    }
  }
  return start;
}

}  // namespace
}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {

HWY_EXPORT(fill_rows);
void pad_plane(const PatchLayout& layout, const float* plane, float* padded) {
  HWY_DYNAMIC_DISPATCH(fill_rows)(layout, plane, padded);
}

HWY_EXPORT(lay_out);
const float* lay_out_patches(const PatchLayout& layout, const float* image, int64_t channels, float* buffer) {
  return HWY_DYNAMIC_DISPATCH(lay_out)(layout, image, channels, buffer);
}

}  // namespace trireme::cpu
#endif
