// All ranks' copies of one state in double precision: each rank takes the step of its own optimizer, written
// out here, and train/parity/agreed.h says what they agree on.
#pragma once

#include <vector>

#include "tests/exchange/adam.h"
#include "tests/exchange/ranks.h"
#include "trireme/train/parity/agreed.h"

namespace trireme::testing {

class AgreedWeights {
 public:
  using Doubles = std::vector<double>;

  // `how` must outlive this.
  AgreedWeights(const Agreement& how, Role role, const OptimOptions& optim, const Floats& start, size_t ranks)
      : optim_(optim),
        shares_(how, ranks),
        state_(how, lockstep_, role, parity::Estimate(start), ranks),
        of_ranks_(ranks, parity::Estimate(start)),
        velocity_(ranks, Doubles(start.size())),
        adam_(ranks, WrittenOutAdam(optim)) {}

  // Of a weight. `step` counts from 1; `counts` are the targets of each rank.
  void advance(int64_t step, const std::vector<Floats>& gradients, const Doubles& counts, double rate) {
    parity::OfRanks own = of_ranks_;
    for (size_t r = 0; r < own.size(); ++r) {
      if (!shares_.trains(r)) continue;
      const Doubles change = own_change(r, {gradients[r].begin(), gradients[r].end()}, rate);
      for (size_t i = 0; i < change.size(); ++i) own[r].values[i] += change[i];
    }
    settle(step, own, counts);
  }
  // Of a buffer, given what each rank has made of its own in the step.
  void advance_statistics(int64_t step, const std::vector<Floats>& made, const Doubles& counts) {
    settle(step, parity::OfRanks(made.begin(), made.end()), counts);
  }

  const Doubles& of_rank(size_t rank) const { return of_ranks_[rank].values; }
  double sum(size_t i) const {
    double all = 0;
    for (const parity::Estimate& one : of_ranks_) all += one.values[i];
    return all;
  }

 private:
  static inline const std::vector<ArrivalOrder> lockstep_ = {};

  Doubles own_change(size_t rank, const Doubles& gradient, double rate) {
    if (optim_.kind == "adamw") return adam_[rank].change(gradient, rate);
    const double momentum = optim_.kind == "momentum" ? optim_.momentum : 0;
    Doubles change(gradient.size());
    for (size_t i = 0; i < gradient.size(); ++i) {
      velocity_[rank][i] = momentum * velocity_[rank][i] + gradient[i];
      change[i] = -rate * velocity_[rank][i];
    }
    return change;
  }

  void settle(int64_t step, const parity::OfRanks& own, const Doubles& counts) {
    parity::OfRanks made = own;
    Doubles counted = counts;
    for (size_t r = 0; r < made.size(); ++r) {
      if (shares_.trains(r)) continue;
      made[r] = of_ranks_[r];
      counted[r] = 0;
    }
    shares_.count(counted);
    of_ranks_ = state_.after(step, of_ranks_, made, shares_);
    shares_.end_step(step);
  }

  const OptimOptions optim_;
  parity::Shares shares_;
  parity::AgreedState state_;
  parity::OfRanks of_ranks_;
  std::vector<Doubles> velocity_;
  std::vector<WrittenOutAdam> adam_;
};

}  // namespace trireme::testing
