// What a run's folder says of the run beside its numbers: run.json, what it is made of, where and how large,
// events.jsonl, what happened and how it ended, and samples.jsonl, what a language model wrote
// (docs/run_folder.md). Written by rank 0, from the calls of its observer. What can not be written is left
// out: a log may not end a run.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "trireme/run/line_file.h"
#include "trireme/run/observer.h"

namespace trireme {

inline constexpr int kRunFolderFormat = 1;  // of the files and their fields

class RunRecord final : public ForwardingObserver {
 public:
  // `folder`: of the run, "" if it is not known yet.
  RunRecord(RunObserver& next, std::string folder) : ForwardingObserver(next), folder_(std::move(folder)) {}

  void note(const std::string& line) override;
  void started(const RunStart& run) override;
  void stepped(const StepMetrics& step) override;
  void saved(const std::string& checkpoint) override;
  void skipped(int64_t step, const std::string& line) override;
  void rewound(int64_t step, const std::string& line) override;
  void lost_rank(const std::string& line) override;
  void continued(const Continuation& how) override;
  void sampled(int64_t step, const std::string& text) override;
  void ended(const RunResult& result) override;

  // The run ends with an exception. One that was refused before it began is noted in a folder that has had a
  // run already, and nowhere else: it leaves no folder behind.
  void failed(const std::exception& error);

 private:
  void add_text(std::string_view kind, int64_t step, const std::string& text);

  std::string folder_;
  std::optional<LineFile> events_, samples_;
  std::vector<std::string> before_start_;  // notes
  int64_t step_ = 0;
};

// Seconds since 1970.
double wall_seconds();

}  // namespace trireme
