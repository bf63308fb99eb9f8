// What has changed between a checkpoint and the run that goes on from it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/checkpoint/state.h"
#include "trireme/run/agreement.h"

namespace trireme {

struct ResumeChanges {
  // "train.seed was 1 and is 2"; one sentence each.
  std::vector<std::string> told;     // may well be meant: another rate, plan or number of steps
  std::vector<std::string> refused;  // cannot: weights or position would stand for something else
};

// Settings of no consequence for what comes next (where it is logged, how often it is saved) are not
// compared. A checkpoint that does not say what it was made with is compared by its seed alone.
ResumeChanges changes_since(const TrainState& saved, const Facts& now);

}  // namespace trireme
