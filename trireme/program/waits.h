// Messages are started by their actions and go on while segments run. What follows from a list of actions is
// when they must be through: a receive before its slot is read or sent on, a send before its slot is written
// again. The runner waits so, and the verifier plays it.
#pragma once

#include <vector>

#include "trireme/program/program.h"

namespace trireme {

struct Waits {
  std::vector<std::vector<int>> before;  // per action: the numbers of earlier ones, messages
  std::vector<int> at_end;               // those that nothing in the list waits for
};
Waits waits_of(const Program& program, const ActionList& list);

}  // namespace trireme
