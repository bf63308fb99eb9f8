// How replicas agree: what a plan's key `exchange` says, read and checked once, with the plan. Whoever wants
// to know anything about it asks this value; exchange/agreement_record.h has what each kind adds to a step.
#pragma once

#include <optional>

#include "trireme/plan/exchange_rule.h"

namespace trireme {

inline constexpr int kLeadingServer = 0;                   // the rank that evaluates too
inline constexpr std::string_view kServerAxis = "server";  // the group of several servers between steps

// The first ranks keep the weights and the optimizer's states, each those of some parameters, and the others,
// the workers, send them gradients and take weights from them.
struct Servers {
  // kClocks: the gradients of all workers' step c are added up and make update c; a worker waits for the
  // update that is `staleness` behind its own. kArrivals: each gradient makes an update, as it arrives.
  enum class Updates { kClocks, kArrivals } updates = Updates::kClocks;
  int64_t staleness = 0;  // kClocks: by how many steps a worker may be ahead of the slowest
  // kArrivals: the rate is divided by how many updates the weights of a gradient are behind, where any.
  enum class Rate { kAsItIs, kByStaleness } rate = Rate::kAsItIs;
  int count = 1, workers = 0;

  bool serves(int rank) const { return rank < count; }
  int rank_of(int worker) const { return count + worker; }  // workers are counted from 0
};

class Agreement {
 public:
  enum class Kind {
    kDense,       // gradients are added up in every step
    kCompressed,  // a method takes the place of such sums (exchange/method.h)
    kAveraged,    // each rank makes its own steps, and every so many the weights become means
    kMixed,       // each rank makes its own steps, and mixes its weights with those of some others
    kServed,      // servers have the weights
  };
  enum class Pace {
    kInStep,   // the same bits whatever the timing
    kBounded,  // by some steps at most are ranks ahead of others
    kOwn,      // nobody waits
  };

  Agreement() = default;
  // `ranks` are those of the mesh. Throws Error for a method that does not exist, for settings that it does
  // not have or that are out of range, for rules that do not go together, and for too few ranks.
  Agreement(std::vector<ExchangeRule> rules, int ranks);

  Kind kind() const { return kind_; }
  Pace pace() const { return pace_; }
  bool is_dense() const { return kind_ == Kind::kDense; }
  // Whether ranks have weights of their own between agreements.
  bool has_own_weights() const { return kind_ == Kind::kAveraged || kind_ == Kind::kMixed; }
  bool is_in_step() const { return pace_ == Pace::kInStep; }

  const std::vector<ExchangeRule>& rules() const { return rules_; }  // as the plan has them
  const ExchangeSettings& settings(size_t rule = 0) const { return settings_[rule]; }
  // Of those that are about all weights.
  ExchangeKind::Of way() const { return way_; }
  const std::string& method() const { return rules_[0].method; }

  // kAveraged, kMixed: after how many steps ranks agree on something. Throws Error where the plan speaks of
  // epochs, which are steps only for the data of a run.
  int64_t period() const;
  int64_t delay() const;      // kAveraged: steps that a sum travels; 0: it is awaited at once
  int64_t staleness() const;  // kMixed: by how many steps the weights of a neighbour may be behind
  int64_t taking_part(int64_t ranks) const;  // kAveraged: how many of so many ranks do in a round
  const Servers* servers() const { return servers_ ? &*servers_ : nullptr; }  // null but for kServed

  // With as many steps for each epoch that it speaks of.
  Agreement with_epochs_as_steps(int64_t steps_of_epoch) const;

 private:
  void serve(int ranks);

  Kind kind_ = Kind::kDense;
  Pace pace_ = Pace::kInStep;
  ExchangeKind::Of way_ = ExchangeKind::Of::kGradients;
  std::vector<ExchangeRule> rules_;
  std::vector<ExchangeSettings> settings_;  // of each rule
  std::optional<Servers> servers_;
};

std::string_view name(Agreement::Kind kind);

}  // namespace trireme
