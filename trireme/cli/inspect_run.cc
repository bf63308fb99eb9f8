// `trireme inspect run`: a summary of what a run wrote to its metrics.jsonl.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/bench/statistics.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/inspect_commands.h"
#include "trireme/cli/run_metrics.h"

namespace trireme::cli {
namespace {

namespace fs = std::filesystem;

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

void line(std::string_view name, const std::string& value) {
  fmt::print("  {:<16} {}\n", name, value);
}

std::string losses_text(const std::vector<CurvePoint>& points) {
  const auto finite = [](const CurvePoint& p) { return std::isfinite(p.y) ? p.y : HUGE_VAL; };
  const CurvePoint& best = *std::ranges::min_element(points, {}, finite);
  return fmt::format("first {:.4f}, last {:.4f}, best {:.4f} at step {:g}", points.front().y, points.back().y,
                     best.y, best.x);
}

void print_summary(const RunMetrics& m) {
  if (!m.loss.empty()) {
    line("steps", fmt::format("{:g} to {:g}, {} recorded", m.loss.front().x, m.loss.back().x, m.loss.size()));
    line("loss", losses_text(m.loss));
  }
  if (!m.validation.empty()) line("validation loss", losses_text(m.validation));
  if (!m.rates.empty())
    line(m.unit + "/s", fmt::format("{:.0f} (median; p10 {:.0f}, p90 {:.0f})", bench::median_of(m.rates),
                                    bench::quantile_of(m.rates, 0.1), bench::quantile_of(m.rates, 0.9)));
  if (!m.step_seconds.empty()) {
    const double total = sum(m.step_seconds);
    line("step", fmt::format("{:.1f} ms (median); {:.1f} s in all steps, {:.1f}% of it communication",
                             bench::median_of(m.step_seconds) * 1e3, total,
                             total > 0 ? 100 * sum(m.comm_seconds) / total : 0.0));
  }
  if (!m.grad_norms.empty())
    line("gradient norm", fmt::format("{:.3g} (median), largest {:.3g}", bench::median_of(m.grad_norms),
                                      *std::ranges::max_element(m.grad_norms)));
  line("learning rate", fmt::format("{:.3g} at the end", m.last_rate));
  if (m.peak_bytes > 0) line("memory", format_bytes(static_cast<size_t>(m.peak_bytes)));
  if (m.broken_lines > 0) line("broken lines", fmt::format("{}, passed over", m.broken_lines));
}

}  // namespace

int inspect_run(std::span<const std::string> arguments) {
  std::string path;
  int width = 72;
  CLI::App app("Shows how a run went.", "trireme inspect run");
  app.add_option("dir", path, "the run's folder, or its metrics.jsonl")->required();
  app.add_option("--width", width, "of the curve, in characters; default 72")->check(CLI::Range(20, 400));
  if (const auto code = parse_arguments(app, {arguments.begin(), arguments.end()})) return *code;

  const fs::path file = fs::is_directory(path) ? fs::path(path) / "metrics.jsonl" : fs::path(path);
  if (!fs::exists(file))
    throw_error("{}: there is no such file; is {} the folder of a run?", file.string(), path);
  const RunMetrics metrics = read_metrics(file);
  fmt::print("{}\n", path);
  print_summary(metrics);
  fmt::print("\nloss (*){} by step\n{}", metrics.validation.empty() ? "" : " and validation loss (o)",
             draw_curve(metrics.loss, metrics.validation, width));
  return kOk;
}

}  // namespace trireme::cli
