// A picture of lines over one axis, with a legend beside them.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trireme {

struct LineChart {
  struct Point {
    double x, y;
  };
  enum class Style { kLine, kDashed, kCircles };  // a line with a dot at each point; open circles alone
  struct Line {
    std::vector<Point> points;
    size_t colour = 0;  // by number; they repeat after ten
    Style style = Style::kLine;
  };
  struct Key {
    std::string name;
    size_t colour = 0;
    Style style = Style::kLine;
    bool apart = false;  // from the one above
  };
  enum class Scale { kLinear, kLog };  // linear ones begin at 0

  static constexpr size_t kBlack = 0, kGrey = 9;

  std::string title, subtitle, x_label, y_label;
  // Where something is written below the axis; left out where there is no room. The axis is linear: a caller
  // that wants another gives places of its own.
  std::vector<std::pair<double, std::string>> x_marks;
  Scale y_scale = Scale::kLog;
  std::string (*y_text)(double) = nullptr;  // how values are written beside the axis
  std::vector<Line> lines;
  std::vector<Key> legend;

  // As SVG. Points that are not finite, or not above 0 on a log scale, are left out.
  std::string draw() const;
};

}  // namespace trireme
