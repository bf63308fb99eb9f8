// `trireme place --run`: the placement as processes of this machine.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "trireme/place/best_placement.h"
#include "trireme/place/latency_goal.h"

namespace trireme::cli {

struct PlaceRun {
  std::string folder;   // of the workflow's file, to which runs are relative
  std::string answers;  // a file; "": none
  std::string json;     // another
  double timeout = 60;  // seconds without an answer
};

// Whether this process is a rank of such a run, and not the one that starts it.
bool is_placed_rank();

// Starts the ranks, or is one of them. `given` are the command's arguments, with which the ranks are started,
// and `placement` is handed to them. Returns an exit code.
int run_placed(const place::Workflow& workflow, const place::Placement& placement,
               const nlohmann::ordered_json& placement_json, const place::Requests& requests,
               const PlaceRun& run, std::span<const std::string> given);

}  // namespace trireme::cli
