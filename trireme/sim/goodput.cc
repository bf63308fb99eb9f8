// See goodput.h.
#include "trireme/sim/goodput.h"

#include <charconv>
#include <cmath>
#include <map>
#include <string>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme::sim {
namespace {

double seconds_of(std::string_view text, std::string_view whole) {
  static const std::map<std::string_view, double> kUnits = {
      {"ms", 1e-3}, {"s", 1}, {"min", 60}, {"h", 3600}, {"d", 86400}};
  double number = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto unit = kUnits.find({end, static_cast<size_t>(text.data() + text.size() - end)});
  if (status != std::errc() || unit == kUnits.end() || !(number >= 0) || !std::isfinite(number))
    throw_error(
        "--failures is '{}', where '{}' is no time; a number and a unit expected, one of ms, s, min, h, d",
        whole, text);
  return number * unit->second;
}

}  // namespace

Failures parse_failures(std::string_view text) {
  Failures failures;
  const std::map<std::string, double*, std::less<>> fields = {{"mtbf", &failures.device_mtbf_seconds},
                                                              {"checkpoint", &failures.checkpoint_seconds},
                                                              {"detect", &failures.detect_seconds},
                                                              {"restart", &failures.restart_seconds}};
  for (const std::string& part : split(text, ',')) {
    const size_t equals = part.find('=');
    const auto field = fields.find(part.substr(0, equals));
    if (equals == part.npos || field == fields.end())
      throw_error(
          "--failures is '{}', where '{}' is nothing known; "
          "mtbf=50000h,checkpoint=30s,detect=10s,restart=5min is of the form expected",
          text, part);
    *field->second = seconds_of(std::string_view(part).substr(equals + 1), text);
  }
  if (failures.device_mtbf_seconds <= 0 || failures.checkpoint_seconds <= 0)
    throw_error(
        "--failures is '{}'; how often a device fails and how long a checkpoint takes are needed: "
        "mtbf=50000h,checkpoint=30s",
        text);
  return failures;
}

// A stretch of `s` seconds is through when s seconds pass without a failure; each failure costs what was done
// of it and a restart, which may fail as well. On average that takes MTBF · e^(restart / MTBF) · (e^(s /
// MTBF) − 1).
Goodput goodput_of(const Failures& failures, int devices, double interval_seconds) {
  const double mtbf = failures.device_mtbf_seconds / devices;
  const double interval =
      interval_seconds > 0 ? interval_seconds : std::sqrt(2 * failures.checkpoint_seconds * mtbf);
  const double restart = failures.detect_seconds + failures.restart_seconds;
  const double taken =
      mtbf * std::exp(restart / mtbf) * std::expm1((interval + failures.checkpoint_seconds) / mtbf);
  return {mtbf, interval, interval / taken};
}

}  // namespace trireme::sim
