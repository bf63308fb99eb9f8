// How replicas agree that do not add up gradients in every step: each has weights of its own, and goes on by
// itself for some steps until all agree on weights, or mixes them with those of its neighbours in every step.
// A rule of the plan's exchange that stands alone and speaks of all parameters.
#pragma once

#include <optional>

#include "trireme/exchange/method.h"
#include "trireme/plan/plan.h"

namespace trireme {

struct Consistency {
  enum class Kind {
    kLocal,    // every `steps` steps: w becomes the mean
    kFedavg,   // likewise, weighed by the targets that each rank has counted since
    kDiloco,   // likewise; a step of Nesterov from the last agreement towards the mean
    kDelayed,  // what `period` steps have changed becomes the mean of it `delay` steps later
    kGossip,   // in every step: w becomes the mean of one's own and one's neighbours', and then the step is
               // made
    kPushSum,  // in every step half of w, and half of the weight of it, goes to one other rank
    kPairs,    // w and that of a partner become the mean of both, whenever the two hear of each other
  } kind;
  ExchangeSettings settings;

  // After how many steps ranks agree on something. Throws Error where the plan speaks of epochs, which are
  // steps only for the data of a run.
  int64_t period() const;
  // Whether ranks mix weights without a common step, each at its own pace (train/gossip_steps.h). Their
  // programs have the list by which they would in lockstep too, for who counts and times it.
  bool at_own_pace() const;
  // Of kGossip: by how many steps the weights of a neighbour may be behind; 0: ranks are in lockstep.
  int64_t staleness() const { return kind == Kind::kGossip ? settings.whole("staleness") : 0; }
  // How many of so many ranks take part in a round.
  int64_t taking_part(int64_t ranks) const;
};

// The plan with as many steps for each epoch that its exchange speaks of.
Plan with_epochs_as_steps(Plan plan, int64_t steps_of_epoch);

// Nothing where the plan's exchange is of another kind. Throws Error for what check_rules() refuses.
std::optional<Consistency> consistency_of(const Plan& plan);

// For who shows all: a rule for each, as it is where the plan says nothing of its settings.
std::vector<ExchangeRule> consistency_rules();

// Throws Error where the rest of the plan does not allow it, with the reason.
void check_consistency(const Plan& plan);

}  // namespace trireme
