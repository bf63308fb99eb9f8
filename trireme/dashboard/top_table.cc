// See top_table.h.
#include "trireme/dashboard/top_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "trireme/base/text.h"

namespace trireme::dashboard {
namespace {

std::string text_or_blank(const std::optional<double>& value, std::string_view format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "";
}

std::string clock_text(const std::optional<double>& seconds) {
  if (!seconds || !(*seconds < 1e9)) return "";
  const auto whole = static_cast<int64_t>(*seconds);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::optional<double> seconds_left(const RunSummary& run) {
  if (run.state != "running" || !run.step || !run.steps || !run.seconds || *run.step <= 0)
    return std::nullopt;
  return std::max(0.0, (*run.steps - *run.step) * *run.seconds / *run.step);
}

// Text of so many columns or less; one column a character, which is right for nearly all names.
std::string cut_to(const std::string& text, size_t columns) {
  size_t seen = 0, end = 0;
  while (end < text.size() && (seen < columns || (text[end] & 0xc0) == 0x80))
    seen += (text[end++] & 0xc0) != 0x80;
  return text.substr(0, end);
}

size_t columns_in(const std::string& text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string padded(const std::string& text, size_t columns) {
  return text + std::string(columns - std::min(columns, columns_in(text)), ' ');
}

std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return printable(text);
}

}  // namespace

std::string top_table(const Runs& runs, int rows, int columns) {
  std::vector<const Runs::Run*> shown;
  for (size_t i = 0; i < runs.size(); ++i)
    if (!runs[i].gone) shown.push_back(&runs[i]);
  std::ranges::stable_sort(shown, std::greater(), [](const Runs::Run* run) {
    return std::pair(run->summary.state == "running", run->summary.changed.value_or(0));
  });
  shown.resize(std::min(shown.size(), static_cast<size_t>(std::max(0, rows - 1))));
  size_t name_columns = 8;
  for (const Runs::Run* run : shown)
    name_columns = std::clamp(columns_in(one_line(run->name)), name_columns, size_t{40});
  constexpr std::string_view kLine = "{} {:>11} {:>17} {:>10} {:>10} {:>10} {:>6} {:>9} {:>9}";
  const auto line = [&](const std::string& text) {
    return cut_to(text, static_cast<size_t>(columns)) + "\n";
  };
  std::string table = line(fmt::format(kLine, padded("run", name_columns), "state", "step", "loss",
                                       "held out", "per s", "MFU", "time", "left"));
  for (const Runs::Run* run : shown) {
    const RunSummary& summary = run->summary;
    const std::string steps =
        text_or_blank(summary.step, "{:.0f}") + (summary.steps ? fmt::format("/{:.0f}", *summary.steps) : "");
    std::optional<double> percent = summary.mfu;
    if (percent) *percent *= 100;
    table += line(fmt::format(kLine, padded(cut_to(one_line(run->name), name_columns), name_columns),
                              summary.state, steps, text_or_blank(summary.loss, "{:.4f}"),
                              text_or_blank(summary.validation_loss, "{:.4f}"),
                              text_or_blank(summary.rate, "{:.0f}"), text_or_blank(percent, "{:.1f}%"),
                              clock_text(summary.seconds), clock_text(seconds_left(summary))));
  }
  return table;
}

}  // namespace trireme::dashboard
