// See draw.h.
#include "trireme/sim/draw.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "trireme/base/text.h"
#include "trireme/passes/stage.h"

namespace trireme::sim {
namespace {

constexpr double kLeft = 150, kTop = 62, kRow = 32, kBar = 18, kThin = 6, kRight = 20, kWidth = 1100;
constexpr std::string_view kCommunicates = "#e15759", kWaits = "#dddddd";

struct Paint {
  std::string_view what, colour;
  friend auto operator<=>(const Paint&, const Paint&) = default;
};

Paint paint_of(const std::string& segment) {
  const std::optional<Phase> phase = phase_of_piece(segment);
  if (phase == Phase::kForward) return {"forward", "#4e79a7"};
  if (phase == Phase::kBackward) return {"backward", "#59a14f"};
  if (phase == Phase::kWeight) return {"weight", "#f28e2b"};
  if (segment.starts_with("update")) return {"update", "#b07aa1"};
  return {"forward and backward", "#76b7b2"};
}

std::string place_of(const Mesh& mesh, int rank) {
  std::vector<std::string> places;
  for (int axis = 0; axis < static_cast<int>(mesh.axes().size()); ++axis)
    places.push_back(fmt::format("{} {}", mesh.axes()[axis].name, mesh.coordinate(rank, axis)));
  return places.empty() ? fmt::format("rank {}", rank) : fmt::format("{}: {}", rank, join(places, ", "));
}

class Picture {
 public:
  Picture(const SimReport& report, const Mesh& mesh)
      : report_(report),
        mesh_(mesh),
        seconds_(report.step_seconds * static_cast<double>(report.steps)),
        scale_((kWidth - kLeft - kRight) / std::max(seconds_, 1e-30)) {}

  std::string draw(const std::string& title) {
    const double bottom = y(report_.ranks.size());
    add(R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:.0f} {1:.0f}" width="{0:.0f}" height="{1:.0f}" font-family="Helvetica, Arial, sans-serif" font-size="11">)",
        kWidth, bottom + 36);
    add("<style>.in{{fill:#fff;text-anchor:middle}}</style>");
    add(R"(<rect width="100%" height="100%" fill="#ffffff"/>)");
    add(R"(<text x="10" y="26" font-size="16" font-weight="bold">{}</text>)", title);
    add(R"(<text x="10" y="46">step {:.3f} s, bubble {:.1f} %</text>)", report_.step_seconds,
        100 * report_.bubble);
    for (size_t row = 0; row < report_.ranks.size(); ++row) draw_rank(row);
    draw_legend(bottom + 10);
    svg_ += "</svg>\n";
    return std::move(svg_);
  }

 private:
  template <typename... Arguments>
  void add(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(svg_), text, std::forward<Arguments>(arguments)...);
    svg_ += '\n';
  }
  double x(double seconds) const { return kLeft + seconds * scale_; }
  static double y(size_t row) { return kTop + kRow * static_cast<double>(row); }
  void bar(double begin, double end, double top, double height, std::string_view colour) {
    add(R"(<rect x="{:.1f}" y="{:.0f}" width="{:.2f}" height="{:.0f}" fill="{}"/>)", x(begin), top,
        std::max((end - begin) * scale_ - 0.4, 0.2), height, colour);
  }

  void draw_rank(size_t row) {
    const RankReport& rank = report_.ranks[row];
    add(R"(<text x="10" y="{:.0f}">{}</text>)", y(row) + 13, place_of(mesh_, rank.rank));
    bar(0, seconds_, y(row), kBar, kWaits);
    for (const TraceEvent& event : rank.time.events) {
      if (event.end <= event.begin || event.name == kWaitEvent) continue;
      if (event.track == TraceEvent::Track::kCommunication) {
        bar(event.begin, event.end, y(row) + kBar + 1, kThin, kCommunicates);
        communicates_ = true;
        continue;
      }
      const Paint paint = paint_of(event.name);
      painted_.insert(paint);
      bar(event.begin, event.end, y(row), kBar, paint.colour);
      const std::string number = std::to_string(event.microbatch);
      const double width = (event.end - event.begin) * scale_;
      if (paint.what != "update" && width > 7.0 * static_cast<double>(number.size()))
        add(R"(<text x="{:.1f}" y="{:.0f}" class="in">{}</text>)", x(event.begin) + width / 2, y(row) + 13,
            number);
    }
    for (const TraceEvent& event : rank.time.events) {
      if (event.name == kWaitEvent) bar(event.begin, event.end, y(row), kBar, kWaits);
    }
  }

  void draw_legend(double top) {
    double left = kLeft;
    const auto entry = [&](std::string_view words, std::string_view colour) {
      add(R"(<rect x="{:.0f}" y="{:.0f}" width="14" height="12" fill="{}"/>)", left, top, colour);
      add(R"(<text x="{:.0f}" y="{:.0f}">{}</text>)", left + 20, top + 10, words);
      left += 40 + 7 * static_cast<double>(words.size());
    };
    for (const Paint& paint : painted_) entry(paint.what, paint.colour);
    if (communicates_) entry("communication", kCommunicates);
    entry("waits", kWaits);
  }

  const SimReport& report_;
  const Mesh& mesh_;
  const double seconds_;  // of all steps
  const double scale_;    // pixels for a second
  std::set<Paint> painted_;
  bool communicates_ = false;
  std::string svg_;
};

}  // namespace

std::string trace_of(const SimReport& report, const Mesh& mesh) {
  std::vector<std::string> parts;
  for (const RankReport& rank : report.ranks)
    parts.push_back(trace_part(rank.rank, place_of(mesh, rank.rank), rank.time.events));
  return trace_file(parts);
}

std::string draw_svg(const SimReport& report, const Mesh& mesh, const std::string& title) {
  return Picture(report, mesh).draw(title);
}

}  // namespace trireme::sim
