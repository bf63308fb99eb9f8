// metrics.jsonl of a run's folder, read back: one JSON object a line.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/cli/curve.h"
#include "trireme/run/learning.h"

namespace trireme::cli {

struct RunMetrics {
  std::vector<CurvePoint> loss;        // by step
  std::vector<CurvePoint> validation;  // by step
  std::vector<LearningStep> steps;     // in order; records are tokens or samples
  std::vector<LearningStep> held_out;  // a validation each, with what was trained since the one before
  std::vector<double> rates;           // of them a second
  std::string unit = "tokens";
  std::vector<double> step_seconds, comm_seconds, grad_norms;
  // Of mixtures of experts, of the worst layer of a step: the largest load over the mean, the share dropped.
  std::vector<double> max_loads, dropped;
  // Steps that changed nothing, by why: gradient, loss, spike.
  std::map<std::string, int64_t> skipped;
  int64_t rewinds = 0;
  // Of train.numbers_every: the largest shares of any step, by kind of tensor and what is counted.
  std::string format;
  std::map<std::string, std::map<std::string, double>> numbers;
  double last_rate = 0;      // learning rate
  double peak_bytes = 0;     // largest
  int64_t broken_lines = 0;  // that are not JSON: a writer that was killed leaves one at the end
};

// Throws Error when the file cannot be read or has no step at all.
RunMetrics read_metrics(const std::string& path);
// The same of an open file; `path` is for messages.
RunMetrics parse_metrics(std::istream& in, std::string_view path);

// What the numbers amount to, a line each.
std::string summary_of(const RunMetrics& metrics);

}  // namespace trireme::cli
