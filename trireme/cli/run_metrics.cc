// See run_metrics.h. A run that was resumed writes some steps twice; the later line stands.
#include "trireme/cli/run_metrics.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"

namespace trireme::cli {
namespace {

using Json = nlohmann::json;

// JSON has no NaN: a loss that is not finite is written as null.
double number(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : std::nan("");
}

void append_finite(std::vector<double>& values, double value) {
  if (std::isfinite(value)) values.push_back(value);
}

std::vector<CurvePoint> points_of(const std::map<double, double>& by_step) {
  std::vector<CurvePoint> points;
  for (const auto& [step, value] : by_step) points.push_back({step, value});
  return points;
}

}  // namespace

RunMetrics read_metrics(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw_error("{}: cannot open the metrics: {}", path, std::strerror(errno));
  RunMetrics metrics;
  std::map<double, double> loss, validation;
  std::map<double, LearningStep> steps;
  for (std::string line; std::getline(in, line);) {
    if (line.empty()) continue;
    const Json object = Json::parse(line, nullptr, false);
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
    if (object.contains("validation_loss")) validation[step] = number(object, "validation_loss");
    if (object.contains("samples_per_second")) metrics.unit = "samples";
    append_finite(metrics.rates, number(object, "tokens_per_second"));
    append_finite(metrics.rates, number(object, "samples_per_second"));
    append_finite(metrics.step_seconds, number(object, "step_seconds"));
    append_finite(metrics.comm_seconds, number(object, "comm_seconds"));
    append_finite(metrics.grad_norms, number(object, "grad_norm"));
    if (object.contains("lr")) metrics.last_rate = number(object, "lr");
    metrics.peak_bytes = std::fmax(metrics.peak_bytes, number(object, "peak_bytes"));
  }
  metrics.loss = points_of(loss);
  metrics.validation = points_of(validation);
  for (const auto& [step, learned] : steps) metrics.steps.push_back(learned);
  if (metrics.loss.empty() && metrics.validation.empty())
    throw_error("{}: no step found; expected one JSON object a line, with `step` and `loss`", path);
  return metrics;
}

}  // namespace trireme::cli
