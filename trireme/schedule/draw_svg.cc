// A timeline as SVG; see draw.h.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "trireme/schedule/draw.h"
#include "trireme/schedule/play.h"

namespace trireme {
namespace {

constexpr double kLeft = 70, kTop = 62, kRow = 26, kBar = 20, kRight = 20, kWidth = 960;
constexpr const char* kColours[] = {"#4e79a7", "#59a14f", "#f28e2b", "#b07aa1"};  // by phase
constexpr Phase kPhases[] = {Phase::kForward, Phase::kBackward, Phase::kWeight, Phase::kUpdate};

class Picture {
 public:
  Picture(const Pipeline& pipeline, const Timeline& line)
      : pipeline_(pipeline), line_(line), scale_((kWidth - kLeft - kRight) / std::max(line.end, 1e-30)) {}

  std::string draw(const std::string& title);

 private:
  template <typename... Arguments>
  void add(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(svg_), text, std::forward<Arguments>(arguments)...);
    svg_ += '\n';
  }
  double x(double time) const { return kLeft + time * scale_; }
  static double y(size_t stage) { return kTop + kRow * static_cast<double>(stage); }
  void draw_turn(size_t stage, const TimedTurn& timed);
  void draw_messages();
  void draw_legend(double top);

  const Pipeline& pipeline_;
  const Timeline& line_;
  const double scale_;  // pixels for a unit of time
  std::string svg_;
};

void Picture::draw_turn(size_t stage, const TimedTurn& timed) {
  const double width = (timed.end - timed.start) * scale_;
  if (width <= 0) return;
  const std::vector<int>& chunks = pipeline_.holds[stage];
  const auto place = std::ranges::find(chunks, timed.turn.chunk) - chunks.begin();
  const double opacity = 1 - 0.45 * static_cast<double>(place) / static_cast<double>(chunks.size());
  add(R"(<rect x="{:.1f}" y="{:.0f}" width="{:.1f}" height="{:.0f}" fill="{}" fill-opacity="{:.2f}"/>)",
      x(timed.start), y(stage), std::max(width - 0.6, 0.3), kBar,
      kColours[static_cast<int>(timed.turn.phase)], opacity);
  const std::string number = std::to_string(timed.turn.microbatch);
  if (width > 7.0 * static_cast<double>(number.size()))
    add(R"(<text x="{:.1f}" y="{:.0f}">{}</text>)", x(timed.start) + width / 2, y(stage) + 14, number);
}

void Picture::draw_messages() {
  const TurnPlaces places(pipeline_);
  add(R"(<g stroke="#333333" stroke-width="0.5" stroke-opacity="0.45">)");
  for (size_t stage = 0; stage < line_.stages.size(); ++stage) {
    for (const TimedTurn& timed : line_.stages[stage]) {
      const auto next = awaited_by(pipeline_, timed.turn);
      if (!next) continue;
      const TurnPlaces::Place& to = places.of(*next);
      const auto receiver = static_cast<size_t>(to.stage);
      if (receiver == stage) continue;
      add(R"(<line x1="{:.1f}" y1="{:.0f}" x2="{:.1f}" y2="{:.0f}"/>)", x(timed.end),
          y(stage) + (receiver > stage ? kBar : 0), x(line_.stages[receiver][to.index].start),
          y(receiver) + (receiver > stage ? 0 : kBar));
    }
  }
  add("</g>");
}

void Picture::draw_legend(double top) {
  double left = kLeft;
  const auto entry = [&](std::string_view words, const char* colour) {
    add(R"(<rect x="{:.0f}" y="{:.0f}" width="14" height="12" fill="{}"/>)", left, top, colour);
    add(R"(<text x="{:.0f}" y="{:.0f}" class="dark">{}</text>)", left + 20, top + 10, words);
    left += 100;
  };
  for (const Phase phase : kPhases) {
    if (has_phase(pipeline_, phase)) entry(name(phase), kColours[static_cast<int>(phase)]);
  }
  entry("bubble", "#dddddd");
}

std::string Picture::draw(const std::string& title) {
  const double bottom = y(line_.stages.size());
  add(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" width="{0:.0f}" height="{1:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="11">)",
      kWidth, bottom + 36);
  add("<style>text{{fill:#fff;text-anchor:middle}}.dark{{fill:#222;text-anchor:start}}</style>");
  add(R"(<rect width="100%" height="100%" fill="#ffffff"/>)");
  add(R"(<text x="{:.0f}" y="26" class="dark" font-size="16" font-weight="bold">{}</text>)", kLeft, title);
  add(R"(<text x="{:.0f}" y="46" class="dark">{}</text>)", kLeft, caption(line_));
  for (size_t stage = 0; stage < line_.stages.size(); ++stage) {
    add(R"(<text x="10" y="{:.0f}" class="dark">stage {}</text>)", y(stage) + 14, stage);
    add(R"(<rect x="{:.1f}" y="{:.0f}" width="{:.1f}" height="{:.0f}" fill="#dddddd"/>)", x(0), y(stage),
        line_.end * scale_, kBar);
    for (const TimedTurn& timed : line_.stages[stage]) draw_turn(stage, timed);
  }
  draw_messages();
  draw_legend(bottom + 10);
  svg_ += "</svg>\n";
  return std::move(svg_);
}

}  // namespace

std::string draw_svg(const Pipeline& pipeline, const Timeline& line, const std::string& title) {
  return Picture(pipeline, line).draw(title);
}

}  // namespace trireme
