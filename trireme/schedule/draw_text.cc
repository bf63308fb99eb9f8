// A timeline as text; see draw.h.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "trireme/schedule/draw.h"

namespace trireme {
namespace {

// Time of one character: the shortest turn is as long as its label where there is room for it, or else one
// character, or less where the line would be too long.
double unit_of(const Pipeline& pipeline, const Timeline& line, int columns) {
  double shortest = line.end;
  for (const std::vector<TimedTurn>& turns : line.stages) {
    for (const TimedTurn& turn : turns) {
      if (turn.end > turn.start) shortest = std::min(shortest, turn.end - turn.start);
    }
  }
  const double with_label =
      shortest / static_cast<double>(1 + std::to_string(pipeline.microbatches - 1).size());
  return line.end <= columns * with_label ? with_label : std::max(shortest, line.end / columns);
}

char letter(const ChunkTurn& turn, const std::vector<int>& chunks) {
  const char upper = static_cast<char>(std::toupper(name(turn.phase)[0]));
  return turn.chunk == chunks[0] ? upper : static_cast<char>(std::tolower(upper));
}

}  // namespace

std::string caption(const Timeline& line) {
  std::string text = fmt::format("step {:.6g}, bubble {:.2f} %, {:.2f} % of the work", line.step,
                                 100 * line.bubble, 100 * line.bubble_of_work());
  if (line.end > line.step * (1 + 1e-9))
    text += fmt::format("; from the first stage's beginning to the last one's end {:.6g}", line.end);
  return text;
}

std::string draw_text(const Pipeline& pipeline, const Timeline& line, int columns) {
  const double unit = unit_of(pipeline, line, columns);
  const auto column = [&](double time) { return static_cast<size_t>(std::lround(time / unit)); };
  std::string text;
  for (size_t stage = 0; stage < line.stages.size(); ++stage) {
    std::string row(column(line.end), '.');
    for (const TimedTurn& timed : line.stages[stage]) {
      const size_t begin = column(timed.start), size = column(timed.end) - begin;
      std::string label = letter(timed.turn, pipeline.holds[stage]) + std::to_string(timed.turn.microbatch);
      if (label.size() > size) label.resize(1);
      label.resize(size, '-');
      row.replace(begin, size, label);
    }
    text += fmt::format("stage {:<3}{}\n", stage, row);
  }
  return text;
}

}  // namespace trireme
