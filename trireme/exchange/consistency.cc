// See consistency.h.
#include "trireme/exchange/consistency.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "trireme/base/error.h"

namespace trireme {
namespace {

const std::map<std::string_view, Consistency::Kind>& kinds() {
  using enum Consistency::Kind;
  static const std::map<std::string_view, Consistency::Kind> kinds = {
      {"local", kLocal},   {"fedavg", kFedavg}, {"diloco", kDiloco}, {"delayed", kDelayed},
      {"d_psgd", kGossip}, {"sgp", kPushSum},   {"ad_psgd", kPairs}};
  return kinds;
}

}  // namespace

int64_t Consistency::period() const {
  if (kind == Kind::kGossip || kind == Kind::kPushSum || kind == Kind::kPairs) return 1;
  if (kind == Kind::kFedavg && settings.whole("epochs") > 0)
    throw_error(
        "the exchange fedavg has rounds of {} epochs; how many steps that is depends on the data of a run. "
        "Give "
        "\"steps\" instead to look at the plan without it",
        settings.whole("epochs"));
  return settings.whole(kind == Kind::kDelayed ? "period" : "steps");
}

bool Consistency::at_own_pace() const {
  return kind == Kind::kPairs || staleness() > 0;
}

int64_t Consistency::taking_part(int64_t ranks) const {
  if (kind != Kind::kFedavg) return ranks;
  return std::clamp<int64_t>(std::llround(settings.real("fraction") * static_cast<double>(ranks)), 1, ranks);
}

Plan with_epochs_as_steps(Plan plan, int64_t steps_of_epoch) {
  for (ExchangeRule& rule : plan.exchange) {
    const auto epochs = rule.numbers.find("epochs");
    if (epochs == rule.numbers.end()) continue;
    const double steps = epochs->second * static_cast<double>(steps_of_epoch);
    rule.numbers.erase(epochs);
    if (steps > 0) rule.numbers["steps"] = steps;
  }
  return plan;
}

std::optional<Consistency> consistency_of(const Plan& plan) {
  check_rules(plan.exchange);
  for (const ExchangeRule& rule : plan.exchange) {
    if (const auto kind = kinds().find(rule.method); kind != kinds().end())
      return Consistency{kind->second, checked_settings(rule)};
  }
  return std::nullopt;
}

std::vector<ExchangeRule> consistency_rules() {
  std::vector<ExchangeRule> rules;
  for (const ExchangeKind& kind : exchange_kinds()) {
    if (kind.of == ExchangeKind::Of::kWeights) rules.push_back({.method = std::string(kind.name)});
  }
  return rules;
}

void check_consistency(const Plan& plan) {
  const std::string& method = plan.exchange[0].method;
  for (const char* preset : {"zero1", "zero2", "zero3"}) {
    if (plan.has(preset))
      throw_error(
          "the plan has the exchange {} and the preset {}: ranks have weights and states of the optimizer of "
          "their own for a while, and {} splits one set of them over all. Use the preset data",
          method, preset, preset);
  }
  for (const Axis& axis : plan.mesh.axes()) {
    if (axis.name != "data" && axis.size > 1)
      throw_error(
          "the plan has the exchange {} and an axis {} of {} ranks; replicas that go on by themselves are "
          "one "
          "rank each so far. Use a mesh with the axis data alone",
          method, axis.name, axis.size);
  }
}

}  // namespace trireme
