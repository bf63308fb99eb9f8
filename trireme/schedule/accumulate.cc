// Gradients of several microbatches are added up before one update.
#include "trireme/schedule/schedule.h"

namespace trireme {

Schedule accumulate(int64_t microbatches) {
  Schedule schedule{.microbatches = microbatches, .own = microbatches};
  for (int64_t i = 0; i < microbatches; ++i)
    schedule.step.push_back(Action::run(i == 0 ? "first" : "next", i));
  schedule.step.push_back(Action::run("update"));
  schedule.evaluation = {Action::run("evaluate")};
  return schedule;
}

}  // namespace trireme
