// A timeline as SVG; see draw.h.
#include <algorithm>

#include "trireme/base/svg.h"
#include "trireme/schedule/draw.h"
#include "trireme/schedule/play.h"

namespace trireme {
namespace {

constexpr TimelinePicture::Form kForm{.width = 960, .left = 70, .row = 26, .bar = 20};

std::string_view colour_of(Phase phase) {
  constexpr std::string_view kColours[] = {TimelinePicture::kForward, TimelinePicture::kBackward,
                                           TimelinePicture::kWeight, TimelinePicture::kUpdate};
  return kColours[static_cast<int>(phase)];
}

void draw_turn(TimelinePicture& picture, const Pipeline& pipeline, size_t stage, const TimedTurn& timed) {
  if (timed.end <= timed.start) return;
  const std::vector<int>& chunks = pipeline.holds[stage];
  const auto place = std::ranges::find(chunks, timed.turn.chunk) - chunks.begin();
  const double opacity = 1 - 0.45 * static_cast<double>(place) / static_cast<double>(chunks.size());
  picture.bar(stage, timed.start, timed.end, colour_of(timed.turn.phase),
              std::to_string(timed.turn.microbatch), fmt::format("fill-opacity=\"{:.2f}\"", opacity));
}

void draw_messages(TimelinePicture& picture, const Pipeline& pipeline, const Timeline& line) {
  const TurnPlaces places(pipeline);
  picture.svg().add(R"(<g stroke="#333333" stroke-width="0.5" stroke-opacity="0.45">)");
  for (size_t stage = 0; stage < line.stages.size(); ++stage) {
    for (const TimedTurn& timed : line.stages[stage]) {
      const auto next = awaited_by(pipeline, timed.turn);
      if (!next) continue;
      const TurnPlaces::Place& to = places.of(*next);
      const auto receiver = static_cast<size_t>(to.stage);
      if (receiver == stage) continue;
      const bool down = receiver > stage;
      picture.svg().line(picture.x(timed.end), picture.y(stage) + (down ? kForm.bar : 0),
                         picture.x(line.stages[receiver][to.index].start),
                         picture.y(receiver) + (down ? 0 : kForm.bar));
    }
  }
  picture.svg().add("</g>");
}

}  // namespace

std::string draw_svg(const Pipeline& pipeline, const Timeline& line, const std::string& title) {
  TimelinePicture picture(kForm, line.stages.size(), line.end, title, caption(line));
  for (size_t stage = 0; stage < line.stages.size(); ++stage) {
    picture.row(stage, fmt::format("stage {}", stage));
    for (const TimedTurn& timed : line.stages[stage]) draw_turn(picture, pipeline, stage, timed);
  }
  draw_messages(picture, pipeline, line);
  for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kWeight, Phase::kUpdate}) {
    if (has_phase(pipeline, phase)) picture.legend(name(phase), colour_of(phase));
  }
  picture.legend("bubble", TimelinePicture::kGround);
  return picture.take();
}

}  // namespace trireme
