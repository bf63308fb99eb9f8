// The runs below some folders: which there are, what is said of each, and the curves of those that are looked
// at. Runs are numbered as they are found; a number is never given twice.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "trireme/dashboard/number_log.h"
#include "trireme/dashboard/run_files.h"

namespace trireme::dashboard {

struct RunsOptions {
  std::vector<std::string> folders;     // of runs, or folders that hold such
  size_t most_bytes = size_t{1} << 30;  // of curves in memory; those not asked for the longest go first
  double look_again_seconds = 2;        // between two looks at the folders
};

class Runs {
 public:
  // Throws Error where a folder is not there.
  explicit Runs(RunsOptions options);

  // Looks at the folders again when it is time to. Called before the others.
  void look(double now);

  struct Run {
    std::string name, folder;
    RunSummary summary;
    std::string stamp;
    bool gone = false;
    int64_t changed = 0;  // the version() in which it changed last
  };
  size_t size() const { return runs_.size(); }
  const Run& operator[](size_t number) const { return runs_[number]; }
  int64_t version() const { return version_; }  // grows whenever a run has changed
  // Settings in which runs differ.
  const std::set<std::string>& varying() const { return varying_; }

  // The numbers of metrics.jsonl, as they are now.
  const NumberLog& metrics(size_t number);
  // The same of each rank's log, by rank; empty where the run has none.
  const std::map<int, NumberLog>& ranks(size_t number);

 private:
  struct Logs {
    std::unique_ptr<NumberLog> metrics;
    std::map<int, NumberLog> ranks;
    int64_t asked = 0;
    size_t bytes() const;
  };
  void find(const std::string& folder, const std::string& name, int levels);
  void update_varying();
  Logs& logs(size_t number);
  void forget_oldest(size_t keep);

  RunsOptions options_;
  double looked_ = -1e300;
  int64_t version_ = 0, asked_ = 0;
  std::vector<Run> runs_;
  std::map<std::string, size_t> numbers_;  // by folder
  std::set<std::string> varying_;
  std::map<size_t, Logs> logs_;
};

}  // namespace trireme::dashboard
