// See collective_chart.h.
#include "trireme/cli/collective_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "trireme/base/line_chart.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/write_file.h"

namespace trireme::cli {
namespace {

using comm::Algorithm;
using Times = std::vector<bench::CollectiveTime>;

std::string seconds_text(double seconds) {
  const int unit = seconds < 1e-6 ? 0 : seconds < 1e-3 ? 1 : seconds < 1 ? 2 : 3;
  constexpr std::array<const char*, 4> kUnits = {"ns", "µs", "ms", "s"};
  return fmt::format("{:.3g} {}", seconds * std::pow(10, 9 - 3 * unit), kUnits[static_cast<size_t>(unit)]);
}

double place_of(size_t bytes) {
  return std::log2(std::max<double>(static_cast<double>(bytes), 1));
}

std::vector<LineChart::Point> points(const Times& times, Algorithm algorithm,
                                     double bench::CollectiveTime::*seconds) {
  std::vector<LineChart::Point> result;
  for (const bench::CollectiveTime& time : times) {
    if (time.asked == algorithm) result.push_back({place_of(time.bytes), time.*seconds});
  }
  return result;
}

LineChart chart_of(const Times& times) {
  LineChart chart{.x_label = "size of the vector, bytes",
                  .y_label = "time, median of the slowest rank",
                  .y_text = seconds_text};
  std::vector<Algorithm> algorithms;
  for (const bench::CollectiveTime& time : times) {
    if (std::ranges::find(algorithms, time.asked) == algorithms.end()) algorithms.push_back(time.asked);
    const std::pair<double, std::string> mark{place_of(time.bytes), size_text(time.bytes)};
    if (chart.x_marks.empty() || chart.x_marks.back() != mark) chart.x_marks.push_back(mark);
  }
  using Style = LineChart::Style;
  for (size_t i = 0; i < algorithms.size(); ++i) {
    const std::vector<LineChart::Point> measured =
        points(times, algorithms[i], &bench::CollectiveTime::median_seconds);
    if (algorithms[i] == Algorithm::automatic && algorithms.size() > 1) {
      chart.lines.push_back({measured, LineChart::kBlack, Style::kCircles});
      continue;
    }
    chart.lines.push_back({measured, i});
    chart.lines.push_back(
        {points(times, algorithms[i], &bench::CollectiveTime::predicted_seconds), i, Style::kDashed});
    chart.legend.push_back({std::string(name(algorithms[i])), i});
  }
  // From the slowest to the fastest at the largest size, as the lines end.
  const auto last = [&](const LineChart::Key& key) {
    return points(times, algorithms[key.colour], &bench::CollectiveTime::median_seconds).back().y;
  };
  std::ranges::stable_sort(chart.legend, std::ranges::greater{}, last);
  chart.legend.push_back({"measured", LineChart::kGrey, Style::kLine, true});
  chart.legend.push_back({"predicted", LineChart::kGrey, Style::kDashed});
  if (algorithms.size() > 1 && algorithms[0] == Algorithm::automatic)
    chart.legend.push_back({"automatic choice", LineChart::kBlack, Style::kCircles, true});
  return chart;
}

}  // namespace

void write_collective_chart(const std::string& path, const std::string& title, const std::string& subtitle,
                            const Times& times) {
  LineChart chart = chart_of(times);
  chart.title = title;
  chart.subtitle = subtitle;
  write_file(path, chart.draw(), "picture");
}

}  // namespace trireme::cli
