// Where the pixels of a padded source image lie in scratch memory, so that a convolution can read the
// value under tap t for 16 neighbouring outputs as one vector, without any bounds check.
//
// Output (a, b) reads source pixel (a·row_step + r, b·column_step + c) under the tap at (r, c). Taps
// have rows in [row_first, row_first + row_count) and columns column_first + i·column_pitch for
// i < column_count. Pixels outside the source are zeros.
//
// Two layouts serve all shapes:
// - rows: the padded image as it is. A vector of outputs lies within one output row, so this needs
//   rows of whole vectors and a column step of one. One copy of the image, unaligned loads.
// - flat: one plane per tap column, which already holds the pixels that tap column reads, row by row of
//   out_columns; rows of equal phase of row_step lie together. Outputs are then one run of
//   out_rows·out_columns elements for every tap, whatever the width and the steps are. This is im2col
//   along x only: column_count copies instead of the row_count·column_count of full im2col.
#pragma once

#include <cstddef>
#include <cstdint>

namespace trireme::cpu {

struct PatchLayout {
  int64_t rows = 0, columns = 0;          // of the source image
  int64_t out_rows = 0, out_columns = 0;  // of the grid of outputs
  int64_t row_step = 1, column_step = 1;
  int64_t row_first = 0, row_count = 1;
  int64_t column_first = 0, column_pitch = 1, column_count = 1;

  static constexpr int64_t kVector = 16;         // floats in the widest vector; also the slack at both ends
  static constexpr int64_t kPaddedChannels = 8;  // that are padded on the way to the flat layout

  bool in_rows() const { return column_step == 1 && out_columns % kVector == 0; }
  // The source itself, one channel plane after the other, serves as the flat layout.
  bool is_source() const {
    return row_step == 1 && column_step == 1 && row_count == 1 && column_count == 1 && row_first == 0 &&
           column_first == 0 && out_rows == rows && out_columns == columns && (rows * columns) % kVector == 0;
  }
  int64_t outputs() const { return out_rows * out_columns; }
  int64_t padded_rows() const { return (out_rows - 1) * row_step + row_count; }
  int64_t padded_columns() const {
    return (out_columns - 1) * column_step + (column_count - 1) * column_pitch + 1;
  }
  int64_t rows_per_phase() const { return (padded_rows() + row_step - 1) / row_step; }

  // Floats of one channel, and of the scratch memory for `channels` of them.
  int64_t plane() const {
    if (in_rows()) return padded_rows() * padded_columns();
    return column_count * row_step * rows_per_phase() * out_columns;
  }
  int64_t buffer(int64_t channels) const {
    int64_t floats = channels * plane() + 2 * kVector;
    if (!in_rows()) floats += kPaddedChannels * padded_rows() * padded_columns() + 2 * kVector;
    return (floats + kVector - 1) / kVector * kVector;
  }

  // Where the tap at row row_first + row, column index `column`, finds the pixel of output (0, 0).
  int64_t tap(int64_t row, int64_t column) const {
    if (in_rows()) return row * padded_columns() + column * column_pitch;
    return ((column * row_step + row % row_step) * rows_per_phase() + row / row_step) * out_columns;
  }
};

// Fills `buffer` (of layout.buffer(channels) floats) from `channels` planes of a source image and
// returns where channel 0 starts: in the buffer, or the image itself when layout.is_source().
const float* lay_out_patches(const PatchLayout& layout, const float* image, int64_t channels, float* buffer);

// Only the first step to the flat layout: `padded` gets one plane with its padding, padded_rows() rows of
// padded_columns(), and up to kVector floats of zeros past its end.
void pad_plane(const PatchLayout& layout, const float* plane, float* padded);

}  // namespace trireme::cpu
