// Convolution with 3×3 filters, stride and dilation one, by Winograd's F(2×2, 3×3): outputs are made in
// tiles of 2×2 from 4×4 inputs with 16 multiplications instead of 36. The transforms add work in
// proportion to channels + filters, so it pays only where both are many. Rounding errors stay within a
// small factor of the direct form; the larger tiles F(4×4, 3×3) were rejected because theirs do not.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trireme/base/thread_pool.h"
#include "trireme/kernels/cpu/correlate.h"

namespace trireme::cpu {

struct WinogradConv {
  int64_t images = 0, groups = 1;
  int64_t channels = 0, filters = 0;  // of one group
  int64_t rows = 0, columns = 0, out_rows = 0, out_columns = 0;
  int64_t row_first = 0, column_first = 0;  // the source pixel under the first tap of output (0, 0)

  const float* source = nullptr;  // [images][groups·channels][rows][columns]
  FilterView weights;             // of group 0; tap_index of the nine taps, row by row
  int64_t group_weights = 0;      // floats between groups
  float* out = nullptr;           // [images][groups·filters][out_rows][out_columns]
};

// Whether the shape is one that this can do, faster than the direct form.
bool winograd_pays(const WinogradConv& conv);

size_t winograd_workspace_bytes(const WinogradConv& conv, int threads);
void winograd_convolve(const WinogradConv& conv, ThreadPool& pool, std::byte* workspace);

}  // namespace trireme::cpu
