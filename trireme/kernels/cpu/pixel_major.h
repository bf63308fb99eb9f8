// A padded image with its channels innermost, [rows][columns][channels]: then all channels under one row
// of a convolution window are neighbours in memory, which is what the weight gradient wants.
#pragma once

#include <cstdint>

namespace trireme::cpu {

struct PixelMajor {
  int64_t rows = 0, columns = 0, channels = 0;  // of the source, [channels][rows][columns]
  int64_t row_first = 0, column_first = 0;      // source pixel at the padded image's corner; ≤ 0
  int64_t padded_rows = 0, padded_columns = 0;

  int64_t floats() const { return padded_rows * padded_columns * channels; }
};

// Writes layout.floats() floats, zeros for pixels outside the source.
void to_pixel_major(const PixelMajor& layout, const float* image, float* pixels);

}  // namespace trireme::cpu
