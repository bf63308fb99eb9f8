// What simulations have shown about estimates. Plans of one family are off by about the same: the others'
// estimates are corrected by it.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "trireme/planner/choice.h"
#include "trireme/planner/estimate.h"

namespace trireme::planner {

class Corrections {
 public:
  // What a simulation said: `fill` is the share of the fullest device's memory.
  void learn(const Choice& choice, const Estimate& estimate, double seconds, double fill);

  double seconds(const Choice& choice, const Estimate& estimate) const;
  // The least that the plan is believed to take: by the lowest of what was seen of its family, and with more
  // doubt the less was seen. At least its bound.
  double least_seconds(const Choice& choice, const Estimate& estimate) const;
  double fill(const Choice& choice, const Estimate& estimate) const;
  // Whether any of its family was simulated.
  bool knows(const Choice& choice) const;

 private:
  struct Seen {
    double log_time = 0, log_fill = 0;  // sums
    double lowest = 1;                  // of the ratios of time
    int count = 0;

    void add(double time_ratio, double fill_ratio);
  };
  using Family = std::tuple<std::string, std::string, Recompute::Kind, std::string, bool, Plan::Boundaries>;
  using Clan = std::tuple<std::string, bool>;
  static Family family_of(const Choice& choice);
  static Clan clan_of(const Choice& choice);
  // The nearest relatives of which any was seen, and the share that is taken off for those of others.
  struct Relatives {
    const Seen* seen = nullptr;  // null: nothing was seen at all
    double doubt = 0;
  };
  Relatives nearest(const Choice& choice) const;

  std::map<Family, Seen> families_;
  std::map<Clan, Seen> clans_;
  Seen all_;
};

}  // namespace trireme::planner
