// What `trireme top` prints: a line for each run, those that are running first.
#pragma once

#include <string>

#include "trireme/dashboard/runs.h"

namespace trireme::dashboard {

// At most `rows` lines, the title among them, none wider than `columns`.
std::string top_table(const Runs& runs, int rows, int columns);

}  // namespace trireme::dashboard
