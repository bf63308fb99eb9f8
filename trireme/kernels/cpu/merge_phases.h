// Puts the phases of a strided grid together: pixel (a·row_step + py, b·column_step + px) of each plane
// comes from element (a, b) of phase (py, px).
#pragma once

#include <cstdint>

namespace trireme::cpu {

struct PhaseGrid {
  int64_t rows = 0, columns = 0;          // of the merged plane
  int64_t row_step = 1, column_step = 1;  // number of phases in each dim
  int64_t phase_rows() const { return (rows + row_step - 1) / row_step; }
  int64_t phase_columns() const { return (columns + column_step - 1) / column_step; }
  int64_t phases() const { return row_step * column_step; }
};

// `phases` holds, for phase py·column_step + px at a distance of phase_stride floats, one plane of
// phase_rows·phase_columns floats per channel.
void merge_phases(const PhaseGrid& grid, const float* phases, int64_t phase_stride, int64_t channels,
                  float* merged);

}  // namespace trireme::cpu
