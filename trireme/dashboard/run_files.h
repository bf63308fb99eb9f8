// What the files of a run's folder say, without its curves (docs/run_folder.md). Folders of older versions,
// which have fewer files, say less. Files that are damaged say nothing: a run that is looked at need not be
// one of ours.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace trireme::dashboard {

// finished, stopped, time_is_up, no_better and failed are what the run has said of its end. running: a
// process has it. lost: none has it, and it has not said why. unknown: of an older version.
using RunState = std::string;

struct RunSummary {
  RunState state = "unknown";
  std::string family, device, host, unit = "tokens";
  int ranks = 1;
  std::optional<double> parameters, step, steps, loss, validation_loss, rate, mfu, seconds;
  std::optional<double> started, changed;  // seconds since 1970
  std::map<std::string, double> memory;    // bytes by kind, of rank 0 as planned
  std::map<std::string, std::string> config;
  friend bool operator==(const RunSummary&, const RunSummary&) = default;
};

// The files that processes of this host have locked, by device and number.
using LockedFiles = std::set<uint64_t>;
LockedFiles locked_files();

bool is_run(const std::string& folder);
// Reads heads and tails of files, so that it takes the same time for a run of any length.
RunSummary read_summary(const std::string& folder, const LockedFiles& locked, double now);
// By which one knows whether a run has changed: sizes and times of its files.
std::string stamp_of(const std::string& folder);

// Values by dotted name. Empty where the text is no TOML.
std::map<std::string, std::string> flat_toml(const std::string& text);

// All that is known of a run but its numbers: "run", "plan", "config", "facts" (of the plan), "events",
// "samples", "checkpoints".
nlohmann::ordered_json read_details(const std::string& folder);

}  // namespace trireme::dashboard
