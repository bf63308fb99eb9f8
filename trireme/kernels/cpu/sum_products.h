// The arithmetic of a convolution's weight gradient over a few images:
//   sums[f][j] (+)= Σ_images Σ_p dy[f][p] · pixels[window of p][j]
// where j runs over the values under the window: `segments` runs of segment_floats floats each (a row of
// the window, or a single pixel when the window is dilated in x), rounded up to whole vectors. What lies
// past the end of a run is garbage and is summed as such; callers leave it out afterwards.
#pragma once

#include <cstdint>

namespace trireme::cpu {

// Runs are rounded up to this many floats; pixels must be readable for as many past their end.
inline constexpr int64_t kSegmentRounding = 16;

struct SumProducts {
  int64_t images = 0;
  int64_t out_rows = 0, out_columns = 0;

  const float* pixels = nullptr;
  int64_t image_stride = 0, row_stride = 0, pixel_stride = 0;  // between windows, in floats
  const int64_t* segment_offsets = nullptr;
  int64_t segments = 0, segment_floats = 0;

  const float* dy = nullptr;  // of filter 0; planes of one filter after the other
  int64_t dy_image_stride = 0;
  int64_t first_filter = 0, last_filter = 0;

  float* sums = nullptr;  // of filter 0; segments·segment_floats floats each
  enum class Start { kZero, kSums } start = Start::kZero;
};

void sum_products(const SumProducts& work);

// A padded image with its channels innermost, [rows][columns][channels]: then all channels under one row
// of a convolution window are neighbours in memory, which is what the weight gradient wants.
struct PixelMajor {
  int64_t rows = 0, columns = 0, channels = 0;  // of the source, [channels][rows][columns]
  int64_t row_first = 0, column_first = 0;      // source pixel at the padded image's corner; ≤ 0
  int64_t padded_rows = 0, padded_columns = 0;

  int64_t floats() const { return padded_rows * padded_columns * channels; }
};

// Writes layout.floats() floats, zeros for pixels outside the source.
void to_pixel_major(const PixelMajor& layout, const float* image, float* pixels);

}  // namespace trireme::cpu
