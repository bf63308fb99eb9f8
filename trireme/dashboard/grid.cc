// See grid.h. A pass over all points takes 1 ms for a million of them, so that no tree of coarser levels is
// kept.
#include "trireme/dashboard/grid.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trireme::dashboard {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

template <typename Body>
void for_each_point(const Curve& curve, const Grid& grid, const Body& body) {
  const double scale = 1 / grid.width;  // exact: widths are powers of two
  const size_t points = std::min(curve.x.size(), curve.y.size());
  for (size_t i = 0; i < points; ++i) {
    const double cell = std::floor(curve.x[i] * scale) - static_cast<double>(grid.first);
    if (cell >= 0 && cell < static_cast<double>(grid.cells) && std::isfinite(curve.y[i]))
      body(static_cast<size_t>(cell), curve.y[i]);
  }
}

struct Extremes {
  double first = kNone, least = kNone, most = kNone, last = kNone;
  bool least_is_first = true;

  void add(double y) {
    if (std::isnan(first)) {
      first = least = most = last = y;
      return;
    }
    last = y;
    if (y < least) {
      least = y;
      least_is_first = false;
    } else if (y > most) {
      most = y;
      least_is_first = true;
    }
  }
};

}  // namespace

Grid grid_over(double from, double to, int most_cells, double least_width) {
  constexpr double kFarthest = 1e15;  // beyond it neighbours are no longer told apart
  from = std::clamp(from, -kFarthest, kFarthest);
  to = std::clamp(to, from, kFarthest);
  const double span = to - from;
  Grid grid{least_width};
  const auto cells = [&] {
    grid.first = static_cast<int64_t>(std::floor(from / grid.width));
    return std::floor(to / grid.width) - std::floor(from / grid.width) + 1;
  };
  if (span > 0) grid.width = std::max(least_width, std::exp2(std::floor(std::log2(span / most_cells))));
  while (cells() > most_cells) grid.width *= 2;
  grid.cells = static_cast<int64_t>(cells());
  return grid;
}

int most_points_in_a_cell(const Curve& curve, const Grid& grid) {
  std::vector<int> points(static_cast<size_t>(grid.cells));
  for_each_point(curve, grid, [&](size_t cell, double) { ++points[cell]; });
  return points.empty() ? 0 : *std::ranges::max_element(points);
}

std::vector<double> cut(const Curve& curve, const Grid& grid, int slots) {
  std::vector<Extremes> cells(static_cast<size_t>(grid.cells));
  for_each_point(curve, grid, [&](size_t cell, double y) { cells[cell].add(y); });
  std::vector<double> values;
  values.reserve(cells.size() * static_cast<size_t>(slots));
  for (const Extremes& cell : cells) {
    if (slots == kSlots) {
      values.push_back(cell.first);
      values.push_back(cell.least_is_first ? cell.least : cell.most);
      values.push_back(cell.least_is_first ? cell.most : cell.least);
    }
    values.push_back(cell.last);
  }
  return values;
}

std::vector<double> means(const Curve& curve, const Grid& grid) {
  std::vector<double> sums(static_cast<size_t>(grid.cells)), points(sums.size());
  for_each_point(curve, grid, [&](size_t cell, double y) {
    sums[cell] += y;
    points[cell] += 1;
  });
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = points[i] > 0 ? sums[i] / points[i] : kNone;
  return sums;
}

}  // namespace trireme::dashboard
