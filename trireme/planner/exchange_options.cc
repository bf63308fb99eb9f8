// See exchange_options.h.
#include "trireme/planner/exchange_options.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/plan/combinations.h"

namespace trireme::planner {
namespace {

// So fast that what is left does not count, and still a number that can be divided by.
constexpr double kEndlessRate = 1e18;

ExchangeOption option_of(const std::string& method, const Found& found, const Subject& subject,
                         const Cluster& cluster) {
  ExchangeOption option{.method = method};
  try {
    Plan plan = found.plan;
    plan.agreement = Agreement({ExchangeRule{.method = method}}, plan.mesh.ranks());
    Features features = features_of(plan);
    features.insert(subject.features.begin(), subject.features.end());
    check_combinations(features);
    const sim::SimReport report = simulate(subject, cluster, found.choice, plan);
    option.step_seconds = report.step_seconds;
    option.bytes_sent = report.bytes_sent;
  } catch (const Error& error) {
    option.refused = error.what();
  }
  return option;
}

}  // namespace

const ExchangeOption& ExchangeAnswer::fastest() const {
  const bool others = options.size() > 1 && options[1].refused.empty();
  return others && options[1].step_seconds < dense().step_seconds ? options[1] : dense();
}

ExchangeAnswer exchange_options(const Found& found, const Subject& subject, const Cluster& cluster) {
  if (found.choice.data == 1)
    throw_error("the plan has one replica ({}), so that there is nothing to agree on",
                to_string(found.choice));
  ExchangeAnswer answer;
  answer.options.push_back({.method = "dense sums",
                            .step_seconds = found.report.step_seconds,
                            .bytes_sent = found.report.bytes_sent});
  for (const ExchangeKind& kind : exchange_kinds()) {
    const ExchangeRule rule{.method = std::string(kind.name)};
    if (is_dense_sum(rule, checked_settings(rule))) continue;
    answer.options.push_back(option_of(rule.method, found, subject, cluster));
  }
  std::stable_sort(answer.options.begin() + 1, answer.options.end(),
                   [](const ExchangeOption& a, const ExchangeOption& b) {
                     if (a.refused.empty() != b.refused.empty()) return a.refused.empty();
                     return a.step_seconds < b.step_seconds;
                   });
  Cluster endless = cluster, immediate = cluster;
  for (LinkClass& link : endless.links) link.bytes_per_second = kEndlessRate;
  for (LinkClass& link : immediate.links) link.alpha_seconds = 0;
  const auto saved = [&](const Cluster& other) {
    return found.report.step_seconds - simulate(subject, other, found.choice, found.plan).step_seconds;
  };
  answer.rate_seconds = saved(endless);
  answer.latency_seconds = saved(immediate);
  return answer;
}

}  // namespace trireme::planner
