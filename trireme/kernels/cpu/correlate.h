// The arithmetic of a convolution over one laid-out image: every output is a weighted sum over channels
// and taps, out[f][p] = Σ_c Σ_t filter[f][c][t] · image[c][tap t of output p]. The forward op is one
// such correlation; the input gradient is one per phase of the stride, with filters and channels in
// each other's places.
#pragma once

#include <cstdint>

#include "trireme/kernels/cpu/patch_layout.h"

namespace trireme::cpu {

// Filters are worked on in blocks of at most kFilterBlock, of nearly equal size.
inline constexpr int64_t kFilterBlock = 6;
inline int64_t filter_blocks(int64_t filters) {
  return (filters + kFilterBlock - 1) / kFilterBlock;
}
inline int64_t filter_block_start(int64_t filters, int64_t block) {
  return filters * block / filter_blocks(filters);
}

// Where filter weights are found: weight of (filter f, channel c, tap t) at f·filter_stride +
// c·channel_stride + tap_index[t].
struct FilterView {
  const float* weights = nullptr;
  int64_t filter_stride = 0, channel_stride = 0;
  const int64_t* tap_index = nullptr;
};

// Packs one block of filters in the order in which correlate reads them, to
// packed + filter_block_start(…)·channels·taps; all blocks together take filters·channels·taps floats.
void pack_filter_block(const FilterView& view, int64_t filters, int64_t channels, int64_t taps, int64_t block,
                       float* packed);

struct Correlation {
  const PatchLayout* layout = nullptr;
  const float* image = nullptr;  // channel 0, as lay_out_patches returned it
  int64_t channels = 0;
  const int64_t* taps = nullptr;  // layout.tap(…) of each
  int64_t tap_count = 0;
  const float* packed = nullptr;
  int64_t filters = 0;
  int64_t first_block = 0, last_block = 0;  // the blocks of filters to compute
  float* out = nullptr;                     // of filter 0; each filter takes layout.outputs() floats
};

void correlate(const Correlation& work);

}  // namespace trireme::cpu
