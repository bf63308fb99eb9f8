// See draw.h.
#include "trireme/sim/draw.h"

#include <fmt/format.h>

#include <set>

#include "trireme/base/svg.h"
#include "trireme/base/text.h"

namespace trireme::sim {
namespace {

constexpr TimelinePicture::Form kForm{.width = 1100, .left = 150, .row = 32, .bar = 18};
constexpr std::string_view kCommunicates = "#e15759";

struct Paint {
  std::string_view what, colour;
  friend auto operator<=>(const Paint&, const Paint&) = default;
};

Paint paint_of(TraceEvent::Kind kind) {
  if (kind == TraceEvent::Kind::kForward) return {"forward", TimelinePicture::kForward};
  if (kind == TraceEvent::Kind::kBackward) return {"backward", TimelinePicture::kBackward};
  if (kind == TraceEvent::Kind::kWeight) return {"weight", TimelinePicture::kWeight};
  if (kind == TraceEvent::Kind::kUpdate) return {"update", TimelinePicture::kUpdate};
  return {"forward and backward", "#76b7b2"};
}

std::string place_of(const Mesh& mesh, int rank) {
  std::vector<std::string> places;
  for (int axis = 0; axis < static_cast<int>(mesh.axes().size()); ++axis)
    places.push_back(fmt::format("{} {}", mesh.axes()[axis].name, mesh.coordinate(rank, axis)));
  return places.empty() ? fmt::format("rank {}", rank) : fmt::format("{}: {}", rank, join(places, ", "));
}

}  // namespace

std::string trace_of(const SimReport& report, const Mesh& mesh) {
  std::vector<std::string> parts;
  for (const RankReport& rank : report.ranks)
    parts.push_back(trace_part(rank.rank, place_of(mesh, rank.rank), rank.time.events));
  return trace_file(parts);
}

std::string draw_svg(const SimReport& report, const Mesh& mesh, const std::string& title) {
  TimelinePicture picture(
      kForm, report.ranks.size(), report.step_seconds * static_cast<double>(report.steps), title,
      fmt::format("step {:.3f} s, bubble {:.1f} %", report.step_seconds, 100 * report.bubble));
  std::set<Paint> painted;
  bool communicates = false;
  for (size_t row = 0; row < report.ranks.size(); ++row) {
    const RankReport& rank = report.ranks[row];
    picture.row(row, place_of(mesh, rank.rank));
    for (const TraceEvent& event : rank.time.events) {
      if (event.end <= event.begin || event.kind == TraceEvent::Kind::kWait) continue;
      if (event.track == TraceEvent::Track::kCommunication) {
        picture.thin_bar_below(row, event.begin, event.end, kCommunicates);
        communicates = true;
        continue;
      }
      const Paint paint = paint_of(event.kind);
      painted.insert(paint);
      picture.bar(row, event.begin, event.end, paint.colour,
                  event.kind == TraceEvent::Kind::kUpdate ? "" : std::to_string(event.microbatch));
    }
    for (const TraceEvent& event : rank.time.events) {
      if (event.kind == TraceEvent::Kind::kWait)
        picture.bar(row, event.begin, event.end, TimelinePicture::kGround);
    }
  }
  for (const Paint& paint : painted) picture.legend(paint.what, paint.colour);
  if (communicates) picture.legend("communication", kCommunicates);
  picture.legend("waits", TimelinePicture::kGround);
  return picture.take();
}

}  // namespace trireme::sim
