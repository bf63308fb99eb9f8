// See merge_phases.h. Two phases in x, the usual stride, are interleaved a vector at a time.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/merge_phases.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include "hwy/highway.h"
#include "trireme/kernels/cpu/merge_phases.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// to[2i] = even[i] and to[2i + 1] = odd[i] for pairs [first, last) while whole vectors of D fit;
// returns the first pair not done.
template <class D>
int64_t interleave(D d, const float* even, const float* odd, int64_t first, int64_t pairs, float* to) {
  const int64_t lanes = hn::Lanes(d);
  for (; first + lanes <= pairs; first += lanes) {
    hn::StoreInterleaved2(hn::LoadU(d, even + first), hn::LoadU(d, odd + first), d, to + 2 * first);
  }
  return first;
}

void merge(const PhaseGrid& grid, const float* phases, int64_t phase_stride, int64_t channels,
           float* merged) {
  const int64_t phase_columns = grid.phase_columns();
  const int64_t phase_plane = grid.phase_rows() * phase_columns;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t row = 0; row < grid.rows; ++row) {
      const float* from = phases + row % grid.row_step * grid.column_step * phase_stride + c * phase_plane +
                          row / grid.row_step * phase_columns;
      float* const to = merged + (c * grid.rows + row) * grid.columns;
      int64_t done = 0;
      if (grid.column_step == 2) {
        const int64_t pairs = grid.columns / 2;
        done = interleave(hn::ScalableTag<float>(), from, from + phase_stride, done, pairs, to);
        done = 2 * interleave(hn::CappedTag<float, 4>(), from, from + phase_stride, done, pairs, to);
      }
      for (int64_t x = done; x < grid.columns; ++x) {
        to[x] = from[x % grid.column_step * phase_stride + x / grid.column_step];
      }
    }
  }
}

}  // namespace
}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {

HWY_EXPORT(merge);
void merge_phases(const PhaseGrid& grid, const float* phases, int64_t phase_stride, int64_t channels,
                  float* merged) {
  HWY_DYNAMIC_DISPATCH(merge)(grid, phases, phase_stride, channels, merged);
}

}  // namespace trireme::cpu
#endif
