// See curve.h.
#include "trireme/cli/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace trireme::cli {
namespace {

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void include(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  // 0 … cells − 1; a range of one value is its own middle.
  int cell(double value, int cells) const {
    if (high <= low) return cells / 2;
    return std::clamp(static_cast<int>((value - low) / (high - low) * (cells - 1) + 0.5), 0, cells - 1);
  }
};

}  // namespace

std::string draw_curve(const std::vector<CurvePoint>& line, const std::vector<CurvePoint>& marks, int width,
                       int height) {
  const auto drawable = [](const CurvePoint& p) { return std::isfinite(p.x) && std::isfinite(p.y); };
  Range xs, ys;
  for (const auto* points : {&line, &marks}) {
    for (const CurvePoint& point : *points) {
      if (!drawable(point)) continue;
      xs.include(point.x);
      ys.include(point.y);
    }
  }
  if (xs.high < xs.low) return "";

  std::vector<std::string> rows(height, std::string(width, ' '));  // from the top
  std::vector<double> sums(width, 0), counts(width, 0);
  for (const CurvePoint& point : line) {
    if (!drawable(point)) continue;
    const int column = xs.cell(point.x, width);
    sums[column] += point.y;
    counts[column] += 1;
  }
  for (int column = 0; column < width; ++column) {
    if (counts[column] > 0) rows[height - 1 - ys.cell(sums[column] / counts[column], height)][column] = '*';
  }
  for (const CurvePoint& point : marks) {
    if (drawable(point)) rows[height - 1 - ys.cell(point.y, height)][xs.cell(point.x, width)] = 'o';
  }

  std::string text;
  for (int row = 0; row < height; ++row) {
    const bool labelled = row == 0 || row == height - 1 || row == height / 2;
    const double value = ys.high - (ys.high - ys.low) * row / std::max(1, height - 1);
    rows[row].erase(rows[row].find_last_not_of(' ') + 1);
    text += fmt::format("{:>9} |{}\n", labelled ? fmt::format("{:.4g}", value) : "", rows[row]);
  }
  text += fmt::format("{:>9} +{:-<{}}\n", "", "", width);
  const std::string first = fmt::format("{:g}", xs.low), last = fmt::format("{:g}", xs.high);
  return text + fmt::format("{:>9}  {}{:>{}}\n", "", first, last, width - static_cast<int>(first.size()));
}

}  // namespace trireme::cli
