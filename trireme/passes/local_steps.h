// Lets each rank go on by itself, and the ranks agree now and then (exchange/consistency.h): the update takes
// a rank's own gradient, and what they agree by are segments and messages of their own, in lists that are run
// every so many steps.
//
// In between, ranks have different weights, running statistics and states of the optimizer. Whoever wants one
// model of them (a checkpoint, an evaluation) runs the list `meet`, which keeps a rank's own aside and puts
// the means in their places, and afterwards `part`, which puts them back. `begin` is for after the weights
// were set.
#pragma once

#include <string>
#include <vector>

#include "trireme/exchange/consistency.h"
#include "trireme/passes/exchange.h"
#include "trireme/schedule/schedule.h"

namespace trireme {

struct LocalSteps {
  struct List {
    std::string name;
    std::vector<Action> actions;
    // Run after step `first` (counted from 1), and then every so many; 0: when it is asked for.
    int64_t every = 0, first = 0;
  };
  Graph update;
  std::vector<Graph> segments;  // the others
  std::vector<List> lists;      // in the order in which those of one step are run
  KeptStates kept;
  std::map<std::string, int, std::less<>> slots = {};  // of states that have several
};

// `update` is as for exchange(), on a mesh that has ranks along the axis data alone. All ranks get the same
// nodes.
LocalSteps local_steps(const Graph& update, const Consistency& how, const Mesh& mesh, int rank,
                       const OpTable& ops);

}  // namespace trireme
