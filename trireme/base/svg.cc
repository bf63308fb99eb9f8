// See svg.h.
#include "trireme/base/svg.h"

#include <algorithm>

namespace trireme {
namespace {

constexpr double kTop = 62, kRight = 20, kLegend = 36, kThin = 6;  // of a timeline
constexpr double kLetter = 7;                                      // width of a letter, at most

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else
      out += c;
  }
  return out;
}

double width_of(std::string_view words) {
  return kLetter * static_cast<double>(words.size());
}

}  // namespace

Svg::Svg(double width, double height, int font_size) {
  add(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" width="{0:.0f}" height="{1:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="{2}" fill="#222222">)",
      width, height, font_size);
  add(R"(<rect width="100%" height="100%" fill="#ffffff"/>)");
}

void Svg::rect(double x, double y, double width, double height, std::string_view fill,
               std::string_view more) {
  add(R"(<rect x="{:.1f}" y="{:.0f}" width="{:.2f}" height="{:.0f}" fill="{}"{}{}/>)", x, y, width, height,
      fill, more.empty() ? "" : " ", more);
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view more) {
  add(R"(<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"{}{}/>)", x1, y1, x2, y2,
      more.empty() ? "" : " ", more);
}

void Svg::text(double x, double y, std::string_view words, std::string_view more) {
  add(R"(<text x="{:.1f}" y="{:.1f}"{}{}>{}</text>)", x, y, more.empty() ? "" : " ", more, escaped(words));
}

void Svg::heading(double x, std::string_view title, std::string_view below) {
  text(x, 28, title, R"(font-size="16" font-weight="bold")");
  text(x, 48, below, R"(fill="#666666")");
}

std::string Svg::take() {
  svg_ += "</svg>\n";
  return std::move(svg_);
}

TimelinePicture::TimelinePicture(const Form& form, size_t rows, double end, std::string_view title,
                                 std::string_view below)
    : form_(form),
      end_(end),
      scale_((form.width - form.left - kRight) / std::max(end, 1e-30)),
      rows_(rows),
      svg_(form.width, y(rows) + kLegend, 11),
      legend_left_(form.left) {
  svg_.heading(10, title, below);
}

double TimelinePicture::y(size_t row) const {
  return kTop + form_.row * static_cast<double>(row);
}

// Neighbours are a hair apart.
void TimelinePicture::box(double begin, double end, double top, double height, std::string_view colour,
                          std::string_view more) {
  svg_.rect(x(begin), top, std::max((end - begin) * scale_ - 0.5, 0.25), height, colour, more);
}

void TimelinePicture::row(size_t row, std::string_view label) {
  svg_.text(10, y(row) + 14, label);
  box(0, end_, y(row), form_.bar, kGround);
}

void TimelinePicture::bar(size_t row, double begin, double end, std::string_view colour,
                          std::string_view inside, std::string_view more) {
  box(begin, end, y(row), form_.bar, colour, more);
  const double width = (end - begin) * scale_;
  if (!inside.empty() && width > width_of(inside))
    svg_.text(x(begin) + width / 2, y(row) + 14, inside, R"(fill="#ffffff" text-anchor="middle")");
}

void TimelinePicture::thin_bar_below(size_t row, double begin, double end, std::string_view colour) {
  box(begin, end, y(row) + form_.bar + 1, kThin, colour);
}

void TimelinePicture::legend(std::string_view words, std::string_view colour) {
  svg_.rect(legend_left_, y(rows_) + 10, 14, 12, colour);
  svg_.text(legend_left_ + 20, y(rows_) + 20, words);
  legend_left_ += 40 + width_of(words);
}

}  // namespace trireme
