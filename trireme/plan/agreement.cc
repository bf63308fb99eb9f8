// See agreement.h.
#include "trireme/plan/agreement.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/enum_name.h"
#include "trireme/base/error.h"

namespace trireme {
namespace {

using Of = ExchangeKind::Of;

Agreement::Kind kind_of(Of way) {
  switch (way) {
    case Of::kGradients:
      return Agreement::Kind::kCompressed;
    case Of::kMeans:
    case Of::kWeightedMeans:
    case Of::kOuterSteps:
    case Of::kLateMeans:
      return Agreement::Kind::kAveraged;
    case Of::kNeighbours:
    case Of::kPushes:
    case Of::kPairs:
      return Agreement::Kind::kMixed;
    case Of::kClocks:
    case Of::kArrivals:
      break;
  }
  return Agreement::Kind::kServed;
}

// All parameters go that way together.
void check_alone(const std::vector<ExchangeRule>& rules) {
  for (const ExchangeRule& rule : rules) {
    if (find_exchange_kind(rule.method)->of == Of::kGradients) continue;
    if (rules.size() > 1 || !rule.pattern.empty())
      throw_error(
          "the plan's exchange is {}, which is about the weights of ranks and not about single gradients, "
          "{}; all parameters go that way together, so it stands alone",
          rule.method, rule.pattern.empty() ? "beside other rules" : "for '" + rule.pattern + "'");
  }
}

}  // namespace

Agreement::Agreement(std::vector<ExchangeRule> rules, int ranks) : rules_(std::move(rules)) {
  for (const ExchangeRule& rule : rules_) settings_.push_back(checked_settings(rule));
  check_alone(rules_);
  for (size_t r = 0; r < rules_.size(); ++r) {
    way_ = find_exchange_kind(rules_[r].method)->of;
    if (way_ != Of::kGradients || !is_dense_sum(rules_[r], settings_[r])) kind_ = kind_of(way_);
  }
  if (kind_ == Kind::kServed) serve(ranks);
  if (way_ == Of::kPairs || way_ == Of::kArrivals) pace_ = Pace::kOwn;
  if (staleness() > 0 || (servers_ && servers_->staleness > 0)) pace_ = Pace::kBounded;
}

void Agreement::serve(int ranks) {
  const int64_t count = settings().whole("servers");
  if (count >= ranks)
    throw_error(
        "the exchange {} has servers = {} of {} ranks; at least one rank must be left to compute. Add "
        "ranks to the axis data of the mesh",
        method(), count, ranks);
  Servers& servers =
      servers_.emplace(Servers{.count = static_cast<int>(count), .workers = ranks - static_cast<int>(count)});
  if (settings().has("staleness")) servers.staleness = settings().whole("staleness");
  if (way_ != Of::kArrivals) return;
  servers.updates = Servers::Updates::kArrivals;
  if (settings().whole("stale_rate") != 0) servers.rate = Servers::Rate::kByStaleness;
}

int64_t Agreement::period() const {
  if (kind_ != Kind::kAveraged) return 1;
  if (settings().has("epochs") && settings().whole("epochs") > 0)
    throw_error(
        "the exchange {} has rounds of {} epochs; how many steps that is depends on the data of a run. Give "
        "\"steps\" instead to look at the plan without it",
        method(), settings().whole("epochs"));
  return settings().whole(way_ == Of::kLateMeans ? "period" : "steps");
}

int64_t Agreement::delay() const {
  return way_ == Of::kLateMeans ? settings().whole("delay") : 0;
}

int64_t Agreement::staleness() const {
  return way_ == Of::kNeighbours ? settings().whole("staleness") : 0;
}

int64_t Agreement::taking_part(int64_t ranks) const {
  if (way_ != Of::kWeightedMeans) return ranks;
  return std::clamp<int64_t>(std::llround(settings().real("fraction") * static_cast<double>(ranks)), 1,
                             ranks);
}

Agreement Agreement::with_epochs_as_steps(int64_t steps_of_epoch) const {
  if (kind_ != Kind::kAveraged || !rules_[0].numbers.contains("epochs")) return *this;
  ExchangeRule rule = rules_[0];
  const double steps = rule.numbers.extract("epochs").mapped() * static_cast<double>(steps_of_epoch);
  if (steps > 0) rule.numbers["steps"] = steps;
  return {{rule}, /*ranks=*/1};
}

std::string_view name(Agreement::Kind kind) {
  constexpr EnumNames<5> names = {"dense", "compressed", "averaged", "mixed", "served"};
  return names[static_cast<size_t>(kind)];
}

}  // namespace trireme
