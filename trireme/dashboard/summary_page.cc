// See answers.h.
#include <fmt/format.h>

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/dashboard/answers.h"

namespace trireme::dashboard {
namespace {

constexpr size_t kMostRows = 500;  // of the newest runs
constexpr std::string_view kPlace = "{{summary}}";

std::string cell(const std::string& text) {
  return fmt::format("<td>{}</td>", escaped(printable(text)));
}

std::string number_cell(const std::optional<double>& value, std::string_view format) {
  return fmt::format("<td class=\"number\">{}</td>", value ? fmt::format(fmt::runtime(format), *value) : "");
}

std::string row(const Runs::Run& run) {
  const RunSummary& summary = run.summary;
  return fmt::format("<tr>{}{}{}{}{}{}{}{}</tr>\n", cell(run.name), cell(summary.state),
                     number_cell(summary.step, "{:.0f}"), number_cell(summary.steps, "{:.0f}"),
                     number_cell(summary.loss, "{:.4f}"), number_cell(summary.validation_loss, "{:.4f}"),
                     number_cell(summary.rate, "{:.0f}"), cell(summary.unit + "/s"));
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string summary_page(const Runs& runs, std::string_view frame) {
  std::vector<const Runs::Run*> there;
  for (size_t i = 0; i < runs.size(); ++i)
    if (!runs[i].gone) there.push_back(&runs[i]);
  std::ranges::stable_sort(there, std::greater(),
                           [](const Runs::Run* run) { return run->summary.started.value_or(0); });
  std::string table =
      "<table>\n<tr><th>run</th><th>state</th><th>step</th><th>of</th><th>loss</th><th>validation</th><th>speed</th>"
      "<th></th></tr>\n";
  for (size_t i = 0; i < std::min(kMostRows, there.size()); ++i) table += row(*there[i]);
  table += "</table>\n";
  if (there.size() > kMostRows)
    table += fmt::format("<p>The newest {} of {} runs.</p>\n", kMostRows, there.size());
  const size_t at = frame.find(kPlace);
  TRIREME_CHECK(at != std::string_view::npos);
  return fmt::format("{}{}{}", frame.substr(0, at), table, frame.substr(at + kPlace.size()));
}

}  // namespace trireme::dashboard
