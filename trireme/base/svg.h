// Writes an SVG picture element by element. Lengths are in pixels; y grows downwards.
#pragma once

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <string_view>

namespace trireme {

class Svg {
 public:
  Svg(double width, double height, int font_size);

  // One element, written out. `more` below stands for further attributes.
  template <typename... Arguments>
  void add(fmt::format_string<Arguments...> element, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(svg_), element, std::forward<Arguments>(arguments)...);
    svg_ += '\n';
  }
  void rect(double x, double y, double width, double height, std::string_view fill,
            std::string_view more = "");
  void line(double x1, double y1, double x2, double y2, std::string_view more = "");
  // `words` is any text: markup in it is escaped.
  void text(double x, double y, std::string_view words, std::string_view more = "");
  // A title in large letters at the top left, and a line below it.
  void heading(double x, std::string_view title, std::string_view below);

  std::string take();

 private:
  std::string svg_;
};

// Bars along an axis of time, a row for each worker on a grey ground, and a legend below the rows.
class TimelinePicture {
 public:
  struct Form {
    double width, left, row, bar;  // of the picture; where time begins; the height of a row and of its bar
  };
  // `end` is the last moment that is shown.
  TimelinePicture(const Form& form, size_t rows, double end, std::string_view title, std::string_view below);

  static constexpr std::string_view kGround = "#dddddd";
  static constexpr std::string_view kForward = "#4e79a7", kBackward = "#59a14f", kWeight = "#f28e2b",
                                    kUpdate = "#b07aa1";

  void row(size_t row, std::string_view label);
  // `inside` is written in the bar where there is room for it.
  void bar(size_t row, double begin, double end, std::string_view colour, std::string_view inside = "",
           std::string_view more = "");
  void thin_bar_below(size_t row, double begin, double end, std::string_view colour);
  void legend(std::string_view words, std::string_view colour);

  double x(double time) const { return form_.left + time * scale_; }
  double y(size_t row) const;
  Svg& svg() { return svg_; }
  std::string take() { return svg_.take(); }

 private:
  void box(double begin, double end, double top, double height, std::string_view colour,
           std::string_view more = "");

  const Form form_;
  const double end_;
  const double scale_;  // pixels for a unit of time
  const size_t rows_;
  Svg svg_;
  double legend_left_;
};

}  // namespace trireme
