// See line_chart.h.
#include "trireme/base/line_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "trireme/base/svg.h"

namespace trireme {
namespace {

// Their order of brightness also tells them apart for readers who see few colours.
constexpr std::array<const char*, 10> kColours = {"#111111", "#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                  "#e69f00", "#56b4e9", "#7f3c8d", "#8c6d31", "#888888"};

const char* colour_of(size_t number) {
  return kColours[number % kColours.size()];
}

class LinePicture {
 public:
  explicit LinePicture(const LineChart& chart) : chart_(chart), svg_(kWidth, kHeight, 13) {
    low_x_ = low_y_ = HUGE_VAL;
    high_x_ = high_y_ = -HUGE_VAL;
    for (const auto& [x, words] : chart.x_marks) {
      low_x_ = std::min(low_x_, x);
      high_x_ = std::max(high_x_, x);
    }
    for (const LineChart::Line& line : chart.lines) {
      for (const LineChart::Point& point : line.points) {
        if (!is_drawn(point)) continue;
        low_x_ = std::min(low_x_, point.x);
        high_x_ = std::max(high_x_, point.x);
        low_y_ = std::min(low_y_, place(point.y));
        high_y_ = std::max(high_y_, place(point.y));
      }
    }
    const double margin = high_x_ > low_x_ ? 0.04 * (high_x_ - low_x_) : 0.5;
    low_x_ -= margin;
    high_x_ += margin;
    if (is_log()) {  // to half a power of ten
      low_y_ = std::floor(low_y_ * 2 - 0.1) / 2;
      high_y_ = std::ceil(high_y_ * 2 + 0.1) / 2;
    } else {
      low_y_ = 0;
      high_y_ = high_y_ > 0 ? 1.06 * high_y_ : 1;
    }
  }

  std::string draw() {
    svg_.heading(kLeft, chart_.title, chart_.subtitle);
    if (std::isfinite(low_x_) && std::isfinite(low_y_)) {
      draw_grid();
      for (const LineChart::Line& line : chart_.lines) draw(line);
    }
    draw_legend();
    return svg_.take();
  }

 private:
  static constexpr double kWidth = 960, kHeight = 600;
  static constexpr double kLeft = 84, kRight = 712, kTop = 78, kBottom = 530, kLegend = kRight + 20;
  static constexpr std::string_view kMiddle = R"(text-anchor="middle")";

  bool is_log() const { return chart_.y_scale == LineChart::Scale::kLog; }
  bool is_drawn(const LineChart::Point& point) const {
    return std::isfinite(point.x) && std::isfinite(point.y) && (!is_log() || point.y > 0);
  }
  double place(double y) const { return is_log() ? std::log10(y) : y; }
  double x(double value) const { return kLeft + (kRight - kLeft) * (value - low_x_) / (high_x_ - low_x_); }
  double y(double value) const {
    return kBottom - (kBottom - kTop) * (place(value) - low_y_) / (high_y_ - low_y_);
  }
  static bool is_inside(double y) { return y >= kTop - 0.1 && y <= kBottom + 0.1; }

  // A line across, and what it stands for where that is written.
  void draw_level(double value, bool named) {
    const double at = y(value);
    if (!is_inside(at)) return;
    svg_.line(kLeft, at, kRight, at, named ? R"(stroke="#bbbbbb")" : R"(stroke="#eeeeee")");
    if (named) svg_.text(kLeft - 8, at + 4, chart_.y_text(value), R"(text-anchor="end")");
  }

  void draw_levels() {
    if (is_log()) {
      const int first = static_cast<int>(std::floor(low_y_)), last = static_cast<int>(std::ceil(high_y_));
      for (int power = first; power <= last; ++power) {
        for (int digit = 1; digit <= 9; ++digit)
          draw_level(digit * std::pow(10, power),
                     digit == 1 || (last - first < 3 && (digit == 2 || digit == 5)));
      }
      return;
    }
    const double rough = high_y_ / 6, power = std::pow(10, std::floor(std::log10(rough)));
    const double step = power * (rough < 2 * power ? 2 : rough < 5 * power ? 5 : 10);
    for (int i = 0; i * step <= high_y_; ++i) draw_level(i * step, true);
  }

  void draw_grid() {
    draw_levels();
    for (const auto& [at, words] : chart_.x_marks)
      svg_.line(x(at), kTop, x(at), kBottom, R"(stroke="#dddddd")");
    svg_.rect(kLeft, kTop, kRight - kLeft, kBottom - kTop, "none", R"(stroke="#444444")");
    double last_end = -100;
    for (const auto& [at, words] : chart_.x_marks) {
      const double half = 4 * static_cast<double>(words.size());
      if (x(at) - half < last_end) continue;
      last_end = x(at) + half + 4;
      svg_.text(x(at), kBottom + 18, words, kMiddle);
    }
    svg_.text((kLeft + kRight) / 2, kBottom + 44, chart_.x_label, kMiddle);
    const double middle = (kTop + kBottom) / 2;
    svg_.text(20, middle, chart_.y_label,
              fmt::format(R"svg({} transform="rotate(-90 20 {})")svg", kMiddle, middle));
  }

  void draw(const LineChart::Line& line) {
    std::string path;
    for (const LineChart::Point& point : line.points) {
      if (!is_drawn(point)) continue;
      path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", x(point.x), y(point.y));
      if (line.style == LineChart::Style::kLine)
        svg_.add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="2.8" fill="{}"/>)", x(point.x), y(point.y),
                 colour_of(line.colour));
      if (line.style == LineChart::Style::kCircles) circle(x(point.x), y(point.y), line.colour);
    }
    if (line.style != LineChart::Style::kCircles)
      svg_.add(R"(<polyline points="{}" fill="none" {}/>)", path, stroke(line.style, line.colour));
  }

  void draw_legend() {
    double at = kTop - 8;
    for (const LineChart::Key& key : chart_.legend) {
      at += key.apart ? 34 : 22;
      if (key.style == LineChart::Style::kCircles)
        circle(kLegend + 12, at - 4, key.colour);
      else
        svg_.line(kLegend, at - 4, kLegend + 24, at - 4, stroke(key.style, key.colour));
      svg_.text(kLegend + 32, at, key.name);
    }
  }

  void circle(double at_x, double at_y, size_t colour) {
    svg_.add(R"(<circle cx="{:.1f}" cy="{:.1f}" r="6" fill="none" stroke="{}" stroke-width="1.4"/>)", at_x,
             at_y, colour_of(colour));
  }
  static std::string stroke(LineChart::Style style, size_t colour) {
    return style == LineChart::Style::kDashed
               ? fmt::format(R"(stroke="{}" stroke-width="1.4" stroke-dasharray="5 4")", colour_of(colour))
               : fmt::format(R"(stroke="{}" stroke-width="1.8")", colour_of(colour));
  }

  const LineChart& chart_;
  double low_x_, high_x_, low_y_, high_y_;  // y as place() has it
  Svg svg_;
};

}  // namespace

std::string LineChart::draw() const {
  return LinePicture(*this).draw();
}

}  // namespace trireme
