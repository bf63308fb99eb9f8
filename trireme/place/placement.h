// A placement: which variant each op runs as, on how many workers of each class, and how much each takes.
#pragma once

#include <string>
#include <vector>

#include "trireme/place/workflow.h"

namespace trireme::place {

// Of an op's inputs, `rate` a second go to workers of one class.
struct Share {
  int op = 0, worker = 0;
  double rate = 0;
};

// Of the messages along an input of an op, `rate` a second go between two tiers.
struct Traffic {
  int op = 0, input = 0, from = 0, to = 0;
  double rate = 0;
};

struct Placement {
  Variants variants;
  std::vector<Share> shares;
  std::vector<Traffic> traffic;
  // Workers that are rented: by class where workers are shared, else by op and class.
  std::vector<std::vector<int>> rented;
};

struct Cost {
  double workers = 0, network = 0;  // dollars per hour
  double total() const { return workers + network; }
};
Cost cost_of(const Workflow& workflow, const Placement& placement);

// Of the time of the workers that an op, or all ops of a class where workers are shared, may use: the share
// in which they compute. `group` is an index of `rented`.
double load_of(const Workflow& workflow, const Placement& placement, int group, int worker);

// Throws Error with what is broken: a rate that is not met, a worker that has more to do than it can, more
// workers than there are, messages where no link leads or that do not add up, an accuracy below the goal.
// What a solver returns passes.
void check(const Workflow& workflow, const Placement& placement);

}  // namespace trireme::place
