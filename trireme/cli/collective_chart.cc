// Axes, lines, a legend. See collective_chart.h.
#include "trireme/cli/collective_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "trireme/base/svg.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/write_file.h"

namespace trireme::cli {
namespace {

using comm::Algorithm;

constexpr double kWidth = 960, kHeight = 600;
constexpr double kLeft = 84, kRight = 712, kTop = 78, kBottom = 530, kLegend = kRight + 20;
constexpr std::string_view kMiddle = R"(text-anchor="middle")";

// Their order of brightness also tells them apart for readers who see few colours.
constexpr std::array<const char*, 10> kColours = {"#111111", "#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                  "#e69f00", "#56b4e9", "#7f3c8d", "#8c6d31", "#888888"};

std::string time_text(int power) {  // of ten, in seconds
  const int unit = power < -6 ? 0 : power < -3 ? 1 : power < 0 ? 2 : 3;
  constexpr std::array<const char*, 4> kUnits = {"ns", "µs", "ms", "s"};
  return fmt::format("{:.0f} {}", std::pow(10, power + 9 - 3 * unit), kUnits[static_cast<size_t>(unit)]);
}

// Where values lie on the picture.
struct Axes {
  double low_x, high_x;  // log2 of bytes
  double low_y, high_y;  // log10 of seconds

  double x(double bytes) const {
    return kLeft + (kRight - kLeft) * (std::log2(bytes) - low_x) / (high_x - low_x);
  }
  double y(double seconds) const {
    return kBottom - (kBottom - kTop) * (std::log10(seconds) - low_y) / (high_y - low_y);
  }
};

Axes axes_of(const std::vector<bench::CollectiveTime>& times) {
  Axes axes{1e9, 0, 1e9, -1e9};
  for (const bench::CollectiveTime& time : times) {
    const double x = std::log2(std::max<double>(static_cast<double>(time.bytes), 1));
    axes.low_x = std::min(axes.low_x, x);
    axes.high_x = std::max(axes.high_x, x);
    for (const double seconds : {time.median_seconds, time.predicted_seconds}) {
      if (seconds <= 0) continue;
      axes.low_y = std::min(axes.low_y, std::log10(seconds));
      axes.high_y = std::max(axes.high_y, std::log10(seconds));
    }
  }
  axes.low_x -= 0.5;
  axes.high_x += 0.5;
  axes.low_y = std::floor(axes.low_y * 2 - 0.1) / 2;  // to half a power of ten
  axes.high_y = std::ceil(axes.high_y * 2 + 0.1) / 2;
  return axes;
}

class Chart {
 public:
  explicit Chart(const std::vector<bench::CollectiveTime>& times)
      : times_(times), axes_(axes_of(times)), svg_(kWidth, kHeight, 13) {
    for (const bench::CollectiveTime& time : times) {
      if (std::ranges::find(algorithms_, time.asked) == algorithms_.end()) algorithms_.push_back(time.asked);
    }
  }

  std::string draw(const std::string& title, const std::string& subtitle);

 private:
  void draw_grid();
  void draw_lines(Algorithm algorithm, const char* colour);
  void draw_automatic();
  void draw_legend();
  void entry(double y, std::string_view words, const std::string& stroke);
  std::string path(Algorithm algorithm, double bench::CollectiveTime::*seconds) const;
  const char* colour_of(Algorithm algorithm) const {
    const auto at = static_cast<size_t>(std::ranges::find(algorithms_, algorithm) - algorithms_.begin());
    return kColours[at % kColours.size()];
  }

  const std::vector<bench::CollectiveTime>& times_;
  Axes axes_;
  std::vector<Algorithm> algorithms_;
  Svg svg_;
};

void Chart::draw_grid() {
  svg_.add(R"(<g stroke="#dddddd" stroke-width="1">)");
  for (int power = -10; power <= 4; ++power) {
    for (int digit = 1; digit <= 9; ++digit) {
      const double seconds = digit * std::pow(10, power);
      const double y = axes_.y(seconds);
      if (y < kTop - 0.1 || y > kBottom + 0.1) continue;
      svg_.line(kLeft, y, kRight, y, digit == 1 ? R"(stroke="#bbbbbb")" : R"(stroke="#eeeeee")");
    }
  }
  std::vector<size_t> sizes;
  for (const bench::CollectiveTime& time : times_) sizes.push_back(time.bytes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  for (const size_t bytes : sizes) {
    const double x = axes_.x(static_cast<double>(bytes));
    svg_.line(x, kTop, x, kBottom);
  }
  svg_.add("</g>");
  svg_.rect(kLeft, kTop, kRight - kLeft, kBottom - kTop, "none", R"(stroke="#444444")");
  double last_x = -100;
  for (const size_t bytes : sizes) {
    const double x = axes_.x(static_cast<double>(bytes));
    if (x - last_x < 34) continue;  // no room for the words
    last_x = x;
    svg_.text(x, kBottom + 18, size_text(bytes), kMiddle);
  }
  for (int power = -10; power <= 4; ++power) {
    const double y = axes_.y(std::pow(10, power));
    if (y >= kTop - 0.1 && y <= kBottom + 0.1)
      svg_.text(kLeft - 8, y + 4, time_text(power), R"(text-anchor="end")");
  }
  svg_.text((kLeft + kRight) / 2, kBottom + 44, "size of the vector, bytes", kMiddle);
  const double middle = (kTop + kBottom) / 2;
  svg_.text(20, middle, "time, median of the slowest rank",
            fmt::format(R"svg({} transform="rotate(-90 20 {})")svg", kMiddle, middle));
}

std::string Chart::path(Algorithm algorithm, double bench::CollectiveTime::*seconds) const {
  std::string points;
  for (const bench::CollectiveTime& time : times_) {
    if (time.asked != algorithm || time.*seconds <= 0) continue;
    points += fmt::format("{}{:.1f},{:.1f}", points.empty() ? "" : " ",
                          axes_.x(static_cast<double>(time.bytes)), axes_.y(time.*seconds));
  }
  return points;
}

void Chart::draw_lines(Algorithm algorithm, const char* colour) {
  svg_.add(R"(<polyline points="{}" fill="none" stroke="{}" stroke-width="1.8"/>)",
           path(algorithm, &bench::CollectiveTime::median_seconds), colour);
  for (const bench::CollectiveTime& time : times_) {
    if (time.asked != algorithm) continue;
    svg_.add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="2.8" fill="{}"/>)",
             axes_.x(static_cast<double>(time.bytes)), axes_.y(time.median_seconds), colour);
  }
  svg_.add(
      R"(<polyline points="{}" fill="none" stroke="{}" stroke-width="1.4" stroke-dasharray="5 4" opacity="0.9"/>)",
      path(algorithm, &bench::CollectiveTime::predicted_seconds), colour);
}

void Chart::draw_automatic() {
  for (const bench::CollectiveTime& time : times_) {
    if (time.asked != Algorithm::automatic) continue;
    svg_.add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="6" fill="none" stroke="#111111" stroke-width="1.4"/>)",
             axes_.x(static_cast<double>(time.bytes)), axes_.y(time.median_seconds));
  }
}

void Chart::entry(double y, std::string_view words, const std::string& stroke) {
  svg_.line(kLegend, y - 4, kLegend + 24, y - 4, stroke);
  svg_.text(kLegend + 32, y, words);
}

// From the slowest to the fastest at the largest size, as the lines end.
void Chart::draw_legend() {
  std::vector<bench::CollectiveTime> last;
  for (const Algorithm algorithm : algorithms_) {
    const auto of_it = [&](const bench::CollectiveTime& time) { return time.asked == algorithm; };
    const auto found = std::find_if(times_.rbegin(), times_.rend(), of_it);
    if (algorithm != Algorithm::automatic || algorithms_.size() == 1) last.push_back(*found);
  }
  std::ranges::stable_sort(last, std::ranges::greater{}, &bench::CollectiveTime::median_seconds);
  double y = kTop + 14;
  for (const bench::CollectiveTime& time : last) {
    entry(y, name(time.asked), fmt::format(R"(stroke="{}" stroke-width="2.5")", colour_of(time.asked)));
    y += 22;
  }
  entry(y += 12, "measured", R"(stroke="#444444" stroke-width="2")");
  entry(y += 22, "predicted", R"(stroke="#444444" stroke-width="1.4" stroke-dasharray="5 4")");
  if (algorithms_.size() == 1 || algorithms_[0] != Algorithm::automatic) return;
  y += 22;
  svg_.add(R"(<circle cx="{}" cy="{}" r="6" fill="none" stroke="#111111" stroke-width="1.4"/>)", kLegend + 12,
           y - 4);
  svg_.text(kLegend + 32, y, "automatic choice");
}

std::string Chart::draw(const std::string& title, const std::string& subtitle) {
  svg_.heading(kLeft, title, subtitle);
  draw_grid();
  for (const Algorithm algorithm : algorithms_) {
    if (algorithm != Algorithm::automatic || algorithms_.size() == 1)
      draw_lines(algorithm, colour_of(algorithm));
  }
  if (algorithms_.size() > 1) draw_automatic();
  draw_legend();
  return svg_.take();
}

}  // namespace

void write_collective_chart(const std::string& path, const std::string& title, const std::string& subtitle,
                            const std::vector<bench::CollectiveTime>& times) {
  write_file(path, Chart(times).draw(title, subtitle), "picture");
}

}  // namespace trireme::cli
