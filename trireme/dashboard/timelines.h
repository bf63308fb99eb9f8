// The timeline of a step, from the files of a run's folder (timeline/, docs/run_folder.md): what ranks did,
// and what a simulation before the run said. Only what is as it should be is passed on.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace trireme::dashboard {

// One file: {"step", "begin", "seconds", "ranks": [{"rank", "stands_for", "left_out", "events": [{"name",
// "kind", "track", "begin", "end", "bytes", "microbatch"}]}]}; null where it is none of ours. Events without
// a begin or an end are left out, and numbers that are missing.
nlohmann::ordered_json read_timeline(std::string_view text);

// {"real", "simulated": as above, or null}. Of the files of ranks, those of rank 0's step, or of the first
// rank there is; times count from the first rank's begin.
nlohmann::ordered_json read_timelines(const std::string& folder);

}  // namespace trireme::dashboard
