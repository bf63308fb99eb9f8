// See report.h.
#include "trireme/planner/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "trireme/base/error.h"

namespace trireme::planner {
namespace {

constexpr int kDraws = 32;  // steps with jitter

// Seconds of a rank's step by what they go to, on average over ranks.
std::map<std::string, double> shares_of(const Found& found) {
  std::map<std::string, double> shares;
  double ranks = 0;
  for (const sim::RankReport& rank : found.report.ranks) {
    ranks += rank.stands_for;
    shares["work"] += rank.stands_for * rank.time.work_seconds;
    shares["waiting for other stages (bubble)"] += rank.stands_for * rank.time.bubble_seconds;
    for (size_t a = 0; a < found.plan.mesh.axes().size(); ++a)
      shares["communication over " + found.plan.mesh.axes()[a].name] +=
          rank.stands_for * rank.time.exposed_seconds[a];
  }
  for (auto& [what, seconds] : shares) seconds /= ranks;
  return shares;
}

}  // namespace

Figures figures_of(const Found& found, const Subject& subject) {
  const double seconds = found.report.step_seconds;
  double peak = 0;
  for (const sim::RankReport& rank : found.report.ranks)
    peak += rank.stands_for * rank.device->peak(subject.precision);
  return {.samples_per_second = static_cast<double>(subject.batch) * subject.samples_per_row / seconds,
          .model_utilisation = subject.model_flops() / (seconds * peak),
          .hardware_utilisation = found.report.flops / (seconds * peak)};
}

Budget budget_of(const Found& found, const Subject& subject, const Cluster& cluster, double samples,
                 const Conditions& conditions) {
  Budget budget{.step_seconds = found.report.step_seconds};
  const int ranks = found.choice.ranks();
  if (conditions.jitter > 0) {
    if (ranks > kMostUnequalRanks)
      throw_error("jitter is simulated rank by rank, on up to {} of them; this plan has {}",
                  kMostUnequalRanks, ranks);
    const std::vector<double> steps =
        simulate(subject, cluster, found.choice, found.plan,
                 {.disturbance = {.jitter = conditions.jitter}, .draws = kDraws})
            .drawn_seconds;
    budget.step_seconds =
        std::accumulate(steps.begin(), steps.end(), 0.0) / static_cast<double>(steps.size());
  }
  double hours = samples / figures_of(found, subject).samples_per_second / 3600 * budget.step_seconds /
                 found.report.step_seconds;
  if (conditions.failures) {
    budget.goodput = sim::goodput_of(*conditions.failures, ranks);
    hours /= budget.goodput->share;
  }
  budget.days = hours / 24;
  for (const sim::RankReport& rank : found.report.ranks) {
    const double device_hours = hours * rank.stands_for;
    budget.device_hours += device_hours;
    budget.kilowatt_hours += device_hours * rank.device->watts / 1000;
    budget.money += device_hours * rank.device->price_per_hour;
  }
  return budget;
}

std::vector<Difference> differences(const Found& best, const Found& other) {
  std::map<std::string, double> more = shares_of(other);
  for (const auto& [what, seconds] : shares_of(best)) more[what] -= seconds;
  std::vector<Difference> result;
  for (const auto& [what, seconds] : more) {
    if (std::abs(seconds) >= 0.01 * best.report.step_seconds) result.push_back({what, seconds});
  }
  std::ranges::stable_sort(result, std::greater(), &Difference::seconds);
  return result;
}

std::vector<Sensitivity> sensitivity_of(const Found& found, const Subject& subject, const Cluster& cluster) {
  constexpr double kLess = 0.75;
  std::vector<Sensitivity> result;
  const auto add = [&](std::string what, const Cluster& other, const sim::SimOptions& options = {}) {
    result.push_back(
        {std::move(what), simulate(subject, other, found.choice, found.plan, options).step_seconds});
  };
  for (size_t i = 0; i < cluster.links.size(); ++i) {
    Cluster other = cluster;
    other.links[i].bytes_per_second *= kLess;
    add(fmt::format("link {}: a quarter of its rate less", cluster.links[i].name), other);
    other = cluster;
    other.links[i].alpha_seconds *= 2;
    add(fmt::format("link {}: twice its latency", cluster.links[i].name), other);
  }
  for (size_t i = 0; i < cluster.devices.size(); ++i) {
    Cluster other = cluster;
    for (auto& [dtype, flops] : other.devices[i].flops_per_second) flops *= kLess;
    add(fmt::format("{}: a quarter of its peak less", cluster.devices[i].name), other);
    other = cluster;
    for (BandwidthPoint& point : other.devices[i].bandwidth) point.bytes_per_second *= kLess;
    add(fmt::format("{}: a quarter of its memory's rate less", cluster.devices[i].name), other);
  }
  if (found.choice.ranks() <= kMostUnequalRanks)
    add("one device twice as slow", cluster, {.disturbance = {.slow = {{0, 2.0}}}});
  std::ranges::stable_sort(result, std::greater(), &Sensitivity::seconds);
  return result;
}

Wish baseline(std::string_view name, const Subject& subject, const Cluster& cluster) {
  if (name.empty()) return {};
  if (name == "intra") return {{"pipe", "1"}};
  if (name == "inter") return {{"tensor", "1"}};
  if (name != "manual") throw_error("there is no baseline '{}'; manual, intra and inter are known", name);
  int64_t tensor = cluster.device_count();
  for (const HostClass& host : cluster.hosts) tensor = std::min<int64_t>(tensor, host.devices);
  tensor = subject.tensor_presets.empty() ? 1 : std::gcd(tensor, subject.tensor_divides);
  return {{"tensor", std::to_string(tensor)}, {"sharing", "data"}, {"recompute", "full"}};
}

}  // namespace trireme::planner
