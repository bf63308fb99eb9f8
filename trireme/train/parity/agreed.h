// What ranks agree on (plan/agreement.h), written out for all of them at once in double precision: from what
// each rank's own step makes of its states to what each has behind the step. Nothing of exchange/ but the
// graphs of who talks to whom is used, so that a mistake there does not hide itself.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/exchange/arrival_policy.h"
#include "trireme/ir/role.h"
#include "trireme/plan/agreement.h"

namespace trireme::parity {

// Numbers, and how far rounding may have moved each.
struct Estimate {
  std::vector<double> values, bounds;

  Estimate() = default;
  explicit Estimate(const std::vector<float>& exact);
  Estimate(const std::vector<float>& values, const std::vector<float>& bounds);

  static Estimate zeros(size_t size);
  // Adds so many times another one, as arithmetic in f32 would.
  void add(double factor, const Estimate& other);
};

using OfRanks = std::vector<Estimate>;

// Who counts for how much in a mean: all alike, or by the targets that each has counted. Under fedavg also
// who trains at all: of the clients that are drawn for a round, replica r has the ones in the places r, r +
// replicas, … of their order, one in each turn.
class Shares {
 public:
  Shares(const Agreement& how, size_t ranks);

  bool trains(size_t rank) const;                  // in this turn
  void count(const std::vector<double>& targets);  // of a step; 0 of one that a rank skipped or did not make
  // The share of what a rank has now, and by what the sums of turns before are divided.
  std::vector<double> now() const;
  double all() const;
  const std::vector<double>& counted() const { return counted_; }
  int64_t turns() const { return turns_; }
  // After so many steps, where a turn or a round ends there.
  void end_step(int64_t steps);

 private:
  const Agreement& how_;
  std::vector<double> counted_;
  double finished_ = 0;
  int64_t clients_, drawn_, turns_, turn_ = 0;
};

// One state of all ranks, under agreements in which they have their own, averaged or mixed: in lockstep, or
// as each has heard of others.
class AgreedState {
 public:
  // `heard`: the order in which each rank took messages; empty in lockstep. Outlives it, as `how` does.
  AgreedState(const Agreement& how, const std::vector<ArrivalOrder>& heard, Role role, const Estimate& start,
              size_t ranks);

  // `step` counts from 1. `before` is what ranks have, `own` what the step of each alone makes of it.
  OfRanks after(int64_t step, const OfRanks& before, const OfRanks& own, const Shares& shares);
  // One model of what ranks have now.
  Estimate met(const OfRanks& own, const Shares& shares) const;

 private:
  OfRanks averaged(int64_t step, const OfRanks& own, const Shares& shares);
  OfRanks delayed(int64_t step, const OfRanks& before, const OfRanks& own);
  OfRanks mixed(int64_t step, const OfRanks& before, const OfRanks& own);
  OfRanks pushed(int64_t step, const OfRanks& before, const OfRanks& own) const;
  OfRanks paired(const OfRanks& own) const;

  const Agreement& how_;
  const std::vector<ArrivalOrder>& heard_;
  Role role_;
  size_t ranks_;
  std::vector<OfRanks> shared_;  // with neighbours, by step
  Estimate anchor_, velocity_;
  Estimate finished_;  // sum of what clients of this round have become, by their targets
  OfRanks changed_;
  std::map<int64_t, OfRanks> sent_;  // by the step in which it is due
};

Estimate mean_of(const OfRanks& of, const std::vector<double>& shares);

// By how many steps the weights of the neighbour who is most behind are, in those that a rank mixes in a
// step.
int64_t stalest(const Agreement& how, const ArrivalOrder& heard, int ranks, int rank, int64_t step);

// Ranks that average in pairs at their own pace (ad_psgd): one state of all ranks behind each step, and last
// behind the end, when nobody is asked any more. `own`: what the step of each makes of what it had; `found`:
// what each had behind the step, which is what it offers. Throws Error for an order that can not be.
std::vector<OfRanks> paired_by_order(const Agreement& how, const std::vector<ArrivalOrder>& heard, Role role,
                                     const std::vector<OfRanks>& own, const std::vector<OfRanks>& found);

}  // namespace trireme::parity
