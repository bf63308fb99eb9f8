// The faults themselves, and the words by which a job says what it has noticed.
#pragma once

#include <functional>
#include <string>

#include "trireme/chaos/scene.h"

namespace trireme::chaos {

// What was struck, and when.
struct Strike {
  int rank = 0;
  pid_t process = 0;
  Clock::time_point at;
};

// Strikes one of the ranks that run now, the one that `draw` points at. Throws Error where the system
// refuses.
Strike strike(Scene& scene, const Drill& drill, uint64_t draw);

// Tells of a line of the job whether it names what was struck.
std::function<bool(const std::string&)> names_of_fault(const Drill& drill, const Strike& strike,
                                                       bool has_launcher);

}  // namespace trireme::chaos
