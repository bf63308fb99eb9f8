// See sweep_table.h.
#include "trireme/cli/sweep_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "trireme/base/text.h"
#include "trireme/cli/prediction_report.h"

namespace trireme::cli {

SweepTable::SweepTable(const std::vector<bench::Swept>& swept) {
  for (const bench::Swept& one : swept) {
    for (size_t i = 0; i < one.keys.size(); ++i) {
      keys_.push_back(one.keys[i]);
      widths_.push_back(one.keys[i].size());
      for (const std::vector<std::string>& values : one.values)
        widths_.back() = std::max(widths_.back(), values[i].size());
    }
  }
}

void SweepTable::print(const bench::SweepPoint& point) {
  if (!std::exchange(begun_, true)) {
    for (size_t i = 0; i < keys_.size(); ++i) fmt::print("{:>{}}  ", keys_[i], widths_[i]);
    fmt::print("{:>6} {:>10} {:>10} {:>8} {:>6} {:>7} {:>8} {:>11}\n", "ranks", "step s", "units/s",
               "scaling", "MFU %", "bubble %", "exposed %", "memory");
  }
  for (size_t i = 0; i < keys_.size(); ++i) fmt::print("{:>{}}  ", point.values[i], widths_[i]);
  if (!point.prediction) {
    fmt::print("refused: {}\n", point.refusal);
    return;
  }
  const bench::Prediction& prediction = *point.prediction;
  const sim::SimReport& report = prediction.report;
  const int ranks = point.plan.mesh.ranks();
  const double rate = prediction.units_per_second / ranks;
  if (first_rate_ == 0) first_rate_ = rate;
  double exposed = 0;
  for (const sim::RankReport& rank : report.ranks) {
    for (const double seconds : rank.time.exposed_seconds) exposed += rank.stands_for * seconds / ranks;
  }
  fmt::print("{:>6} {:>10.4g} {:>10.4g} {:>8.3f} {:>6.1f} {:>8.1f} {:>9.1f} {:>11}{}\n", ranks,
             report.step_seconds, prediction.units_per_second, rate / first_rate_,
             100 * prediction.utilisation(prediction.model_flops), 100 * report.bubble,
             100 * exposed / report.step_seconds, format_bytes(report.fullest().memory.peak_bytes),
             point.fits() ? "" : "  does not fit");
}

nlohmann::ordered_json sweep_json(const std::vector<bench::Swept>& swept,
                                  const std::vector<bench::SweepPoint>& points, const std::string& cluster) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const bench::SweepPoint& point : points) {
    nlohmann::ordered_json of_point = nlohmann::ordered_json::object();
    size_t at = 0;
    for (const bench::Swept& one : swept) {
      for (const std::string& key : one.keys) of_point["sweep"][key] = point.values[at++];
    }
    if (point.prediction) {
      of_point["fits"] = point.fits();
      of_point.update(prediction_json(*point.prediction, point.setup, cluster, point.plan));
    } else {
      of_point["refused"] = point.refusal;
    }
    list.push_back(std::move(of_point));
  }
  return list;
}

}  // namespace trireme::cli
