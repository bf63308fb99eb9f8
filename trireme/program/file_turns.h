// When groups of states that rest in files are fetched and stored.
#pragma once

#include <vector>

#include "trireme/program/program.h"

namespace trireme {

// What a segment does with a group.
struct GroupUse {
  int group = 0;
  // Nothing has to be fetched for a segment that makes all of the group and reads nothing of it.
  bool reads = false;
  bool writes = false;
};
std::vector<GroupUse> group_uses(const Program& program, const Graph& segment);

// A list of a program with what its runs need of files: a group is fetched as soon as its staging slot is
// free (where the group before it must be stored, one run later, for that to go on meanwhile), and stored
// behind the last of the runs that have it in memory if they renewed it.
std::vector<Action> with_file_turns(const Program& program, const std::vector<Action>& actions);

// What a list's actions move from and to files.
double file_bytes_moved(const Program& program, const std::vector<Action>& actions);

}  // namespace trireme
