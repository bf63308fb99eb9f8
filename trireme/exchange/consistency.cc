// See consistency.h.
#include "trireme/exchange/consistency.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/exchange/settings.h"

namespace trireme {
namespace {

struct Record {
  std::string_view name;
  Consistency::Kind kind;
  std::vector<ExchangeSetting> settings;
};

constexpr double kMostSteps = 1e6, kMostInFlight = 64;

const std::vector<Record>& records() {
  using enum Consistency::Kind;
  using Setting = ExchangeSetting;
  const Setting steps{
      .name = "steps", .standard = 8, .least = 1, .most = kMostSteps, .kind = Setting::Kind::kWhole};
  static const std::vector<Record> records = {
      {"local", kLocal, {steps}},
      {"fedavg", kFedavg, {steps}},
      {"diloco",
       kDiloco,
       {steps,
        {.name = "outer_rate", .standard = 0.7, .most = 10, .bounds = Setting::Bounds::kAboveLeast},
        {.name = "outer_momentum", .standard = 0.9, .most = 0.9999}}},
      {"delayed",
       kDelayed,
       {{.name = "delay", .standard = 1, .most = kMostSteps, .kind = Setting::Kind::kWhole},
        {.name = "period", .standard = 1, .least = 1, .most = kMostSteps, .kind = Setting::Kind::kWhole},
        {.name = "correction", .standard = 1, .most = 1, .kind = Setting::Kind::kWhole}}}};
  return records;
}

const Record* find_record(std::string_view name) {
  const auto found = std::ranges::find(records(), name, &Record::name);
  return found == records().end() ? nullptr : &*found;
}

}  // namespace

std::optional<Consistency> consistency_of(const Plan& plan) {
  for (const ExchangeRule& rule : plan.exchange) {
    const Record* record = find_record(rule.method);
    if (!record) continue;
    if (plan.exchange.size() > 1 || !rule.pattern.empty())
      throw_error(
          "the plan's exchange is {}, by which ranks have weights of their own for a while, {}; all "
          "parameters "
          "go that way together, so it stands alone",
          rule.method, rule.pattern.empty() ? "beside other rules" : "for '" + rule.pattern + "'");
    Consistency result{record->kind, checked_settings(rule, record->settings)};
    if (result.kind == Consistency::Kind::kDelayed &&
        result.settings.real("delay") > kMostInFlight * result.settings.real("period"))
      throw_error(
          "the exchange delayed has delay = {} and period = {}, so that more than {} sums would be under "
          "way; a longer period or a shorter delay expected",
          result.settings.whole("delay"), result.settings.whole("period"), kMostInFlight);
    return result;
  }
  return std::nullopt;
}

std::vector<ExchangeRule> consistency_rules() {
  std::vector<ExchangeRule> rules;
  for (const Record& record : records()) rules.push_back({.method = std::string(record.name)});
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
