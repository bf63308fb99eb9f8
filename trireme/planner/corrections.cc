// See corrections.h.
#include "trireme/planner/corrections.h"

#include <algorithm>
#include <cmath>

namespace trireme::planner {
namespace {

// Shares by which a plan may be faster than its relatives suggest.
constexpr double kOfFamily = 0.03, kOfSmallFamily = 0.1, kOfClan = 0.2, kOfAll = 0.3;
constexpr int kFew = 3;

}  // namespace

void Corrections::Seen::add(double time_ratio, double fill_ratio) {
  lowest = count == 0 ? time_ratio : std::min(lowest, time_ratio);
  log_time += std::log(time_ratio);
  log_fill += std::log(fill_ratio);
  ++count;
}

Corrections::Family Corrections::family_of(const Choice& choice) {
  return {choice.sharing,           choice.schedule,
          choice.recompute,         choice.layouts.empty() ? choice.tensor_preset : "layouts",
          choice.microbatches == 1, choice.boundaries};
}

Corrections::Clan Corrections::clan_of(const Choice& choice) {
  return {choice.sharing, choice.pipe > 1};
}

void Corrections::learn(const Choice& choice, const Estimate& estimate, double seconds, double fill) {
  for (Seen* const seen : {&families_[family_of(choice)], &clans_[clan_of(choice)], &all_})
    seen->add(seconds / estimate.seconds, fill / estimate.fill());
}

Corrections::Relatives Corrections::nearest(const Choice& choice) const {
  if (const auto family = families_.find(family_of(choice)); family != families_.end())
    return {&family->second, family->second.count < kFew ? kOfSmallFamily : kOfFamily};
  if (const auto clan = clans_.find(clan_of(choice)); clan != clans_.end()) return {&clan->second, kOfClan};
  return {all_.count > 0 ? &all_ : nullptr, kOfAll};
}

bool Corrections::knows(const Choice& choice) const {
  return families_.contains(family_of(choice));
}

double Corrections::seconds(const Choice& choice, const Estimate& estimate) const {
  const Seen* const seen = nearest(choice).seen;
  const double ratio = seen ? std::exp(seen->log_time / seen->count) : 1;
  return std::max(estimate.least_seconds, ratio * estimate.seconds);
}

double Corrections::least_seconds(const Choice& choice, const Estimate& estimate) const {
  const auto [seen, doubt] = nearest(choice);
  const double ratio = seen ? seen->lowest : 1;
  return std::max(estimate.least_seconds, (1 - doubt) * ratio * estimate.seconds);
}

double Corrections::fill(const Choice& choice, const Estimate& estimate) const {
  const Seen* const seen = nearest(choice).seen;
  const double ratio = seen ? std::exp(seen->log_fill / seen->count) : 1;
  return std::max(estimate.least_fill(), ratio * estimate.fill());
}

}  // namespace trireme::planner
