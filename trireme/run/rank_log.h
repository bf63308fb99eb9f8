// ranks/N.jsonl of a run's folder: how long the steps of one rank took, and how much of that went by in
// communication. Each rank writes its own, so that nothing is sent. An all-reduce makes all ranks equally
// slow; the one that waited least in it is the one that came last.
#pragma once

#include <optional>
#include <string>

#include "trireme/program/program.h"
#include "trireme/run/line_file.h"
#include "trireme/run/run_folder.h"

namespace trireme {

class RankLog {
 public:
  // Of one of so many ranks. Lines of steps after `step` are removed, as of metrics.jsonl.
  RankLog(const std::string& folder, const Program& program, int ranks, int64_t step);
  void add(const StepMetrics& step);

 private:
  void write_line();

  std::optional<LineFile> file_;  // nothing where it can not be written: a log may not end a run
  double seconds_between_lines_;
  int64_t lines_ = 0;
  double written_ = 0;  // when the last line was, in seconds since 1970
  StepMetrics sums_ = {};
  int64_t steps_ = 0;  // in the sums
};

}  // namespace trireme
