// See step_profile.h.
#include "trireme/bench/step_profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "trireme/base/statistics.h"
#include "trireme/ir/text.h"

namespace trireme::bench {
namespace {

// More FLOPs a byte than this, and an op is judged by its arithmetic, not by its traffic.
constexpr double kArithmeticIntensity = 8;

std::string rate_text(const Cost& cost, double seconds) {
  if (seconds <= 0) return "-";
  if (cost.flops > kArithmeticIntensity * cost.bytes)
    return fmt::format("{:.1f} GFLOP/s", cost.flops / seconds / 1e9);
  return fmt::format("{:.1f} GB/s", cost.bytes / seconds / 1e9);
}

// Below this a call is mostly the cost of calling, and a fraction of the ceiling says nothing.
constexpr double kShortestSeconds = 20e-6;

std::string ceiling_text(const ProfileRow& row) {
  if (row.calls == 0 || row.ceiling_seconds / row.calls < kShortestSeconds) return "-";
  return fmt::format("{:.0f}%", 100 * row.ceiling_seconds / row.seconds);
}

}  // namespace

std::string shape_text(const Graph& graph, const Node& node) {
  std::string text;
  for (ValueId input : node.inputs) {
    if (!text.empty()) text += ' ';
    text += to_string(graph.type(input));
  }
  const std::string attrs = print(node.attrs);
  return attrs.empty() ? text : text + ' ' + attrs;
}

Profile::Profile(ProfileBy by, Ceilings& ceilings, Executor& executor)
    : by_(by), ceilings_(ceilings), executor_(executor) {
  executor.time([this](int segment, int index, double seconds) {
    const Graph& graph = executor_.program().segments[segment].graph;
    NodeTimes& times = nodes_[{segment, index}];
    times.graph = &graph;
    times.node = &graph.nodes[index];
    times.seconds.push_back(seconds);
  });
}

std::vector<ProfileRow> Profile::rows() const {
  std::map<std::pair<std::string, std::string>, ProfileRow> sums;
  for (const auto& [key, times] : nodes_) {
    const std::string op(times.node->op->name);
    const std::string shape = by_ == ProfileBy::kShape ? shape_text(*times.graph, *times.node) : "";
    const double calls = static_cast<double>(times.seconds.size()) / std::max(1, steps_);
    const Cost cost = cost_of(*times.graph, *times.node);
    ProfileRow& row = sums[{op, shape}];
    row.op = op;
    row.shape = shape;
    row.calls += calls;
    row.seconds += calls * median_of(times.seconds);
    row.cost.flops += calls * cost.flops;
    row.cost.bytes += calls * cost.bytes;
    row.ceiling_seconds += calls * ceilings_.seconds(cost);
  }
  std::vector<ProfileRow> rows;
  for (auto& [key, row] : sums) rows.push_back(std::move(row));
  std::ranges::sort(rows, std::ranges::greater(), &ProfileRow::seconds);
  return rows;
}

std::string profile_table(const std::vector<ProfileRow>& rows) {
  double total = 0, ceiling = 0, calls = 0;
  size_t width = 5;
  for (const ProfileRow& row : rows) {
    total += row.seconds;
    ceiling += row.ceiling_seconds;
    calls += row.calls;
    width = std::max(width, row.op.size());
  }
  std::string text = fmt::format("{:<{}} {:>6} {:>10} {:>7} {:>16} {:>10}\n", "op", width, "calls", "ms",
                                 "share", "rate", "of ceiling");
  for (const ProfileRow& row : rows) {
    text += fmt::format("{:<{}} {:>6.0f} {:>10.3f} {:>6.1f}% {:>16} {:>10}{}\n", row.op, width, row.calls,
                        row.seconds * 1e3, 100 * row.seconds / total, rate_text(row.cost, row.seconds),
                        ceiling_text(row), row.shape.empty() ? "" : "  " + row.shape);
  }
  return text + fmt::format("{:<{}} {:>6.0f} {:>10.3f} {:>6.1f}% {:>16} {:>9.0f}%\n", "total", width, calls,
                            total * 1e3, 100.0, "", 100 * ceiling / total);
}

}  // namespace trireme::bench
