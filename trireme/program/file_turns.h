// When states that rest in files are fetched and stored around the parts of an update (passes/offload.h).
#pragma once

#include <string>
#include <vector>

#include "trireme/schedule/schedule.h"

namespace trireme {

// In place of running `update`, runs its parts; the first needs nothing of files. The first groups are
// fetched at the beginning of the step, while gradients are made; a later one when the group that had its
// staging slot has gone back during the run of the part between them.
std::vector<Action> with_file_turns(std::vector<Action> step, const std::string& update,
                                    const std::vector<std::string>& parts);

}  // namespace trireme
