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
    const double width = high / 2 - low / 2;  // halves: twice that may be more than a double holds
    if (!(width > 0)) return cells / 2;
    return std::clamp(static_cast<int>((value / 2 - low / 2) / width * (cells - 1) + 0.5), 0, cells - 1);
  }
  double at(double share) const { return low * (1 - share) + high * share; }
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
  std::vector<double> means(width, 0), counts(width, 0);
  for (const CurvePoint& point : line) {
    if (drawable(point)) counts[xs.cell(point.x, width)] += 1;
  }
  for (const CurvePoint& point : line) {
    const int column = drawable(point) ? xs.cell(point.x, width) : -1;
    if (column >= 0) means[column] += point.y / counts[column];  // a sum may be more than a double holds
  }
  for (int column = 0; column < width; ++column) {
    if (counts[column] > 0) rows[height - 1 - ys.cell(means[column], height)][column] = '*';
  }
  for (const CurvePoint& point : marks) {
    if (drawable(point)) rows[height - 1 - ys.cell(point.y, height)][xs.cell(point.x, width)] = 'o';
  }

  std::string text;
  for (int row = 0; row < height; ++row) {
    const bool labelled = row == 0 || row == height - 1 || row == height / 2;
    const double value = ys.at(1 - static_cast<double>(row) / std::max(1, height - 1));
    rows[row].erase(rows[row].find_last_not_of(' ') + 1);
    text += fmt::format("{:>9} |{}\n", labelled ? fmt::format("{:.4g}", value) : "", rows[row]);
  }
  text += fmt::format("{:>9} +{:-<{}}\n", "", "", width);
  const std::string first = fmt::format("{:g}", xs.low), last = fmt::format("{:g}", xs.high);
  return text + fmt::format("{:>9}  {}{:>{}}\n", "", first, last, width - static_cast<int>(first.size()));
}

}  // namespace trireme::cli
