// See plan_formats.h.
#include "trireme/run/plan_formats.h"

#include <fmt/format.h>

#include "trireme/run/plan_subject.h"

namespace trireme {

std::string to_string(const NumberFormats& formats) {
  return fmt::format("train.weight_precision={} train.gradient_precision={}", formats.weights,
                     formats.gradients);
}

std::vector<NumberFormats> number_formats(const Config& config) {
  std::vector<NumberFormats> result = {{config.train.weight_precision, config.train.gradient_precision}};
  const std::string& precision = config.train.precision;
  std::vector<NumberFormats> all = {{"f32", "f32"}};
  if (precision != "f32") {
    all.push_back({precision, "f32"});
    all.push_back({precision, precision});
  }
  for (const NumberFormats& formats : all) {
    if (formats != result[0]) result.push_back(formats);
  }
  return result;
}

Config with_formats(Config config, const NumberFormats& formats) {
  config.train.weight_precision = formats.weights;
  config.train.gradient_precision = formats.gradients;
  return config;
}

std::vector<FormatResult> search_formats(const Config& config, const Shape& sample, const Cluster& cluster,
                                         const std::vector<NumberFormats>& formats,
                                         const planner::SearchOptions& options) {
  std::vector<FormatResult> results;
  for (const NumberFormats& one : formats) {
    FormatResult& found = results.emplace_back(FormatResult{one});
    try {
      found.result = planner::search(plan_subject(with_formats(config, one), sample), cluster, options);
    } catch (const planner::Interrupted&) {
      throw;
    } catch (const Error& error) {
      found.why = error.what();
    }
  }
  return results;
}

const FormatResult* fastest(const std::vector<FormatResult>& results) {
  const FormatResult* best = nullptr;
  for (const FormatResult& one : results) {
    if (!one.result) continue;
    if (!best || one.result->best().report.step_seconds < best->result->best().report.step_seconds)
      best = &one;
  }
  return best;
}

}  // namespace trireme
