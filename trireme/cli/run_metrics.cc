// See run_metrics.h. A run that was resumed writes some steps twice; the later line stands.
#include "trireme/cli/run_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "trireme/base/error.h"
#include "trireme/base/input_file.h"
#include "trireme/base/statistics.h"
#include "trireme/base/text.h"

namespace trireme::cli {
namespace {

using PlainJson = nlohmann::json;

// JSON has no NaN: a loss that is not finite is written as null.
double number(const PlainJson& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : std::nan("");
}

void append_finite(std::vector<double>& values, double value) {
  if (std::isfinite(value)) values.push_back(value);
}

// The largest of an array, where there is one.
void append_largest(std::vector<double>& values, const PlainJson& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end() || !found->is_array()) return;
  double largest = -HUGE_VAL;
  for (const PlainJson& one : *found) {
    if (one.is_number()) largest = std::max(largest, one.get<double>());
  }
  append_finite(values, largest);
}

// Objects of shares by kind of tensor, beside other things.
void take_largest_shares(RunMetrics& metrics, const PlainJson& numbers) {
  if (const auto format = numbers.find("format"); format != numbers.end() && format->is_string())
    metrics.format = format->get<std::string>();
  for (const auto& [kind, shares] : numbers.items()) {
    if (!shares.is_object()) continue;
    for (const auto& [what, share] : shares.items()) {
      if (!share.is_number()) continue;
      double& largest = metrics.numbers[kind][what];
      largest = std::max(largest, share.get<double>());
    }
  }
}

std::vector<CurvePoint> points_of(const std::map<double, double>& by_step) {
  std::vector<CurvePoint> points;
  for (const auto& [step, value] : by_step) points.push_back({step, value});
  return points;
}

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

std::string losses_text(const std::vector<CurvePoint>& points) {
  const auto finite = [](const CurvePoint& p) { return std::isfinite(p.y) ? p.y : HUGE_VAL; };
  const CurvePoint& best = *std::ranges::min_element(points, {}, finite);
  return fmt::format("first {:.4f}, last {:.4f}, best {:.4f} at step {:g}", points.front().y, points.back().y,
                     best.y, best.x);
}

}  // namespace

RunMetrics read_metrics(const std::string& path) {
  expect_regular_file(path, "the metrics.jsonl of a run");
  std::ifstream in(path);
  if (!in) throw_error("{}: cannot open the metrics: {}", path, std::strerror(errno));
  return parse_metrics(in, path);
}

RunMetrics parse_metrics(std::istream& in, std::string_view path) {
  RunMetrics metrics;
  std::map<double, double> loss, validation;
  std::map<double, LearningStep> steps;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    const PlainJson object = PlainJson::parse(line, nullptr, false);
    const double step = object.is_object() ? number(object, "step") : std::nan("");
    if (!std::isfinite(step)) {
      ++metrics.broken_lines;
      continue;
    }
    if (object.contains("loss")) {
      loss[step] = number(object, "loss");
      const double seconds = number(object, "step_seconds");
      const double rate =
          number(object, object.contains("samples_per_second") ? "samples_per_second" : "tokens_per_second");
      steps[step] = {step, loss[step], std::isfinite(seconds) ? seconds : 0,
                     std::isfinite(seconds * rate) ? seconds * rate : 0};
    }
    if (const auto why = object.find("skipped"); why != object.end() && why->is_string())
      ++metrics.skipped[why->get<std::string>()];
    if (const double rewinds = number(object, "rewinds"); rewinds > 0 && rewinds < 1e9)
      metrics.rewinds = static_cast<int64_t>(rewinds);
    if (const auto numbers = object.find("numbers"); numbers != object.end() && numbers->is_object())
      take_largest_shares(metrics, *numbers);
    if (object.contains("validation_loss")) validation[step] = number(object, "validation_loss");
    if (object.contains("samples_per_second")) metrics.unit = "samples";
    append_finite(metrics.rates, number(object, "tokens_per_second"));
    append_finite(metrics.rates, number(object, "samples_per_second"));
    append_finite(metrics.step_seconds, number(object, "step_seconds"));
    append_finite(metrics.comm_seconds, number(object, "comm_seconds"));
    append_finite(metrics.grad_norms, number(object, "grad_norm"));
    append_largest(metrics.max_loads, object, "expert_max_load");
    append_largest(metrics.dropped, object, "expert_dropped");
    if (object.contains("lr")) metrics.last_rate = number(object, "lr");
    metrics.peak_bytes = std::fmax(metrics.peak_bytes, number(object, "peak_bytes"));
  }
  metrics.loss = points_of(loss);
  metrics.validation = points_of(validation);
  for (const auto& [step, learned] : steps) metrics.steps.push_back(learned);
  auto trained = steps.begin();
  for (const auto& [step, held_out_loss] : validation) {
    LearningStep& since = metrics.held_out.emplace_back(LearningStep{step, held_out_loss});
    for (; trained != steps.end() && trained->first <= step; ++trained) {
      since.seconds += trained->second.seconds;
      since.records += trained->second.records;
    }
  }
  if (metrics.loss.empty() && metrics.validation.empty())
    throw_error("{}: no step found; expected one JSON object a line, with `step` and `loss`", path);
  return metrics;
}

std::string summary_of(const RunMetrics& m) {
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("  {:<16} {}\n", name, value);
  };
  if (!m.loss.empty()) {
    line("steps", fmt::format("{:g} to {:g}, {} recorded", m.loss.front().x, m.loss.back().x, m.loss.size()));
    line("loss", losses_text(m.loss));
  }
  if (!m.validation.empty()) line("validation loss", losses_text(m.validation));
  if (!m.rates.empty())
    line(m.unit + "/s", fmt::format("{:.0f} (median; p10 {:.0f}, p90 {:.0f})", median_of(m.rates),
                                    quantile_of(m.rates, 0.1), quantile_of(m.rates, 0.9)));
  if (!m.step_seconds.empty()) {
    const double total = sum(m.step_seconds);
    line("step", fmt::format("{:.1f} ms (median); {:.1f} s in all steps, {:.1f}% of it communication",
                             median_of(m.step_seconds) * 1e3, total,
                             total > 0 ? 100 * sum(m.comm_seconds) / total : 0.0));
  }
  if (!m.grad_norms.empty())
    line("gradient norm", fmt::format("{:.3g} (median), largest {:.3g}", median_of(m.grad_norms),
                                      *std::ranges::max_element(m.grad_norms)));
  if (!m.max_loads.empty())
    line("experts", fmt::format("largest load {:.2f} x the mean (median), {:.2f} at the end",
                                median_of(m.max_loads), m.max_loads.back()));
  if (!m.dropped.empty())
    line("dropped", fmt::format("{:.2f}% of choices (median), at most {:.2f}%", 100 * median_of(m.dropped),
                                100 * *std::ranges::max_element(m.dropped)));
  for (const auto& [why, steps] : m.skipped)
    line("skipped", fmt::format("{} steps, because of: {}", steps, why));
  if (m.rewinds > 0) line("rewinds", fmt::format("{}; events.jsonl says why", m.rewinds));
  for (const auto& [kind, shares] : m.numbers) {
    std::string text_of_kind;
    for (const auto& [what, share] : shares) {
      if (share > 0)
        text_of_kind += fmt::format("{}{} {:.3g}%", text_of_kind.empty() ? "" : ", ", what, 100 * share);
    }
    line(kind,
         fmt::format("at most, in {}: {}", m.format, text_of_kind.empty() ? "nothing lost" : text_of_kind));
  }
  line("learning rate", fmt::format("{:.3g} at the end", m.last_rate));
  if (m.peak_bytes > 0) line("memory", format_bytes(static_cast<size_t>(std::min(m.peak_bytes, 0x1p63))));
  if (m.broken_lines > 0) line("broken lines", fmt::format("{}, skipped", m.broken_lines));
  return text;
}

}  // namespace trireme::cli
