// Curves as a chart shows them. A chart of some hundred pixels needs no more of a run with 100,000 steps than
// the first, the last, the least and the most of each column of pixels: lines through these four cover the
// same pixels as a line through all points (M4; Jugel et al., VLDB 2014). So nothing is sampled, and every
// spike is seen at every zoom.
//
// All runs of a chart are cut by one grid. Its cells do not depend on the data, only on the part of the axis
// that is shown: what is drawn does not move when a run grows, and equal runs look equal.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace trireme::dashboard {

// Cell k is [k width, (k + 1) width). Widths are powers of two.
struct Grid {
  double width = 1;
  int64_t first = 0, cells = 0;
};
// The finest grid that covers from…to, which are finite, with at most `most_cells` cells. Not finer than
// `least_width`, which must be a power of two: steps have no parts.
Grid grid_over(double from, double to, int most_cells, double least_width);

// How many points of a curve a cell of a grid can show.
inline constexpr int kSlots = 4;

// Points whose y is not finite are left out, and those that are not on the grid.
struct Curve {
  std::span<const double> x, y;  // of the same length
};
int most_points_in_a_cell(const Curve& curve, const Grid& grid);

// For each cell of the grid its first, least, most and last value, the middle two in the order in which they
// came; NaN where a cell has no point. With one slot, the last value alone.
std::vector<double> cut(const Curve& curve, const Grid& grid, int slots);
// The mean of each cell.
std::vector<double> means(const Curve& curve, const Grid& grid);

}  // namespace trireme::dashboard
