// Runs as JSON.
#pragma once

#include <string>

#include "trireme/dashboard/request.h"
#include "trireme/dashboard/runs.h"

namespace trireme::dashboard {

// {"version", "count", "keys": settings in which runs differ, "runs": [{"run", "name", "state", …, "config":
// the settings in which runs differ}]}; with ?since=VERSION, of those that have changed since.
std::string runs_answer(const Runs& runs, const Request& request);
// {"run": what run.json says, "plan", "config", "defaults", "events", "checkpoints", "names": of its numbers}
std::string run_answer(Runs& runs, const Request& request);

}  // namespace trireme::dashboard
