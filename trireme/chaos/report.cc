// See report.h.
#include "trireme/chaos/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

namespace trireme::chaos {
namespace {

std::string way_of(const ChosenDrill& drill) {
  return drill.hosts > 1 ? fmt::format("{}, {} hosts", drill.transport, drill.hosts) : drill.transport;
}
std::string place_of(const ChosenDrill& drill) {
  return way_of(drill) + (drill.plan.empty() ? "" : " under " + drill.plan);
}

// "0.03 / 1", the slowest against what is promised.
std::string against(const std::vector<double>& seconds, double limit) {
  if (seconds.empty()) return "-";
  const double slowest = std::ranges::max(seconds);
  return limit > 0 ? fmt::format("{:.2f} / {:g}", slowest, limit) : fmt::format("{:.2f}", slowest);
}

std::string outcome_of(const Result& result) {
  const std::string_view outcome = result.kept() ? "kept" : "BROKEN";
  if (result.drill.plan.empty()) return std::string(outcome);
  return fmt::format("{:<7}  {}", outcome, result.drill.plan);
}

std::string promise_text(const Drill& drill) {
  return drill.promise > 0 ? std::to_string(drill.promise) : "none";
}

std::string percentiles(std::string_view what, const std::vector<double>& seconds) {
  if (seconds.empty()) return "";
  return fmt::format("  {} p50 {:.2f} s, p95 {:.2f} s, p99 {:.2f} s, most {:.2f} s\n", what,
                     percentile(seconds, 0.5), percentile(seconds, 0.95), percentile(seconds, 0.99),
                     percentile(seconds, 1));
}

std::string summary_of(const std::string& name, std::span<const Result> results,
                       const std::function<bool(const Result&)>& is_one) {
  std::vector<double> detections, recoveries;
  int64_t runs = 0, kept = 0, steps_again = 0, struck = 0, found = 0;
  for (const Result& result : results) {
    if (!is_one(result)) continue;
    ++runs;
    kept += result.kept();
    struck += result.struck;
    found += result.found;
    steps_again = std::max(steps_again, result.steps_again);
    detections.insert(detections.end(), result.detections.begin(), result.detections.end());
    recoveries.insert(recoveries.end(), result.recoveries.begin(), result.recoveries.end());
  }
  std::string text = fmt::format("{}: kept in {} of {} drills", name, kept, runs);
  if (struck > 0)
    text += fmt::format(", {} of {} faults found{}", found, struck,
                        kept == runs ? ", the others harmed nothing" : "");
  if (!recoveries.empty()) text += fmt::format(", steps made again at most {}", steps_again);
  return text + "\n" + percentiles("detected ", detections) + percentiles("recovered", recoveries);
}

}  // namespace

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const auto rank = static_cast<size_t>(std::ceil(share * static_cast<double>(values.size())));
  return values[std::clamp<size_t>(rank, 1, values.size()) - 1];
}

std::string table_head() {
  return fmt::format("{:<16} {:<12} {:<11} {:<13} {:>7}  {:<9} {:>14} {:>14}  {:<7}  {}\n", "drill", "fault",
                     "phase", "transport", "promise", "expected", "detected / s", "recovered / s", "outcome",
                     "plan");
}

std::string table_line(const Result& result) {
  const Drill& drill = *result.drill.drill;
  return fmt::format("{:<16} {:<12} {:<11} {:<13} {:>7}  {:<9} {:>14} {:>14}  {}\n", drill.name,
                     name(drill.fault), name(drill.phase), way_of(result.drill), promise_text(drill),
                     name(drill.expected), against(result.detections, drill.detection),
                     against(result.recoveries, drill.recovery), outcome_of(result));
}

std::string soak_text(const Result& result) {
  if (result.resources.empty()) return "";
  return fmt::format("  {} losses in {:.0f} s, steps made again at most {}\n", result.recoveries.size(),
                     result.seconds, result.steps_again) +
         percentiles("detected ", result.detections) + percentiles("recovered", result.recoveries) +
         text_of(result.resources);
}

std::string drill_line(const Drill& drill) {
  std::string over = drill.over_shm ? "shm, tcp" : "tcp";
  if (drill.over_hosts) over += ", 2 hosts";
  return fmt::format("{:<16} {:<12} {:<11} {:<17} {:>7}  {}\n", drill.name, name(drill.fault),
                     name(drill.phase), over, promise_text(drill), name(drill.expected));
}

std::string summary_of(std::span<const Result> results) {
  std::string text;
  std::set<std::string> seen;
  const auto add = [&](const std::string& name, const std::function<bool(const Result&)>& is_one) {
    if (std::ranges::count_if(results, is_one) > 1 && seen.insert(name).second)
      text += summary_of(name, results, is_one);
  };
  for (const Result& first : results) {
    const auto is_alike = [&](const Result& other) {
      return other.drill.drill == first.drill.drill && place_of(other.drill) == place_of(first.drill);
    };
    add(fmt::format("{} over {}", first.drill.drill->name, place_of(first.drill)), is_alike);
  }
  for (const Result& first : results) {
    const auto is_of_drill = [&](const Result& other) { return other.drill.drill == first.drill.drill; };
    const auto elsewhere = [&](const Result& other) {
      return is_of_drill(other) && place_of(other.drill) != place_of(first.drill);
    };
    if (std::ranges::any_of(results, elsewhere))
      add(fmt::format("{} in all", first.drill.drill->name), is_of_drill);
  }
  return text;
}

std::string command_of(const Result& result) {
  const ChosenDrill& chosen = result.drill;
  return fmt::format("trireme chaos --only {} --transport {} --seed {}{}{}", chosen.drill->name,
                     chosen.transport, result.seed,
                     chosen.hosts > 1 ? fmt::format(" --hosts {}", chosen.hosts) : "",
                     chosen.plan.empty() ? "" : fmt::format(" --plan '{}'", chosen.plan));
}

nlohmann::ordered_json json_of(std::span<const Result> results) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Result& result : results) {
    const Drill& drill = *result.drill.drill;
    nlohmann::ordered_json one = {{"drill", drill.name},
                                  {"fault", name(drill.fault)},
                                  {"phase", name(drill.phase)},
                                  {"transport", result.drill.transport},
                                  {"hosts", result.drill.hosts},
                                  {"ranks", drill.ranks},
                                  {"promise", drill.promise},
                                  {"expected", name(drill.expected)},
                                  {"kept", result.kept()},
                                  {"detection_seconds", result.detections},
                                  {"recovery_seconds", result.recoveries},
                                  {"steps_again", result.steps_again},
                                  {"seconds", result.seconds},
                                  {"seed", result.seed},
                                  {"command", command_of(result)}};
    if (result.struck > 0) one.update({{"faults", result.struck}, {"found", result.found}});
    if (!result.drill.plan.empty()) one["plan"] = result.drill.plan;
    if (drill.detection > 0) one["detection_limit_seconds"] = drill.detection;
    if (drill.recovery > 0) one["recovery_limit_seconds"] = drill.recovery;
    if (!result.kept()) one["broken"] = result.broken;
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace trireme::chaos
