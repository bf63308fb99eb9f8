// What `trireme train` prints: of what the run is made, a line a step, notes, and a sample at the end.
#pragma once

#include <optional>
#include <vector>

#include "trireme/cli/progress.h"
#include "trireme/run/observer.h"

namespace trireme::cli {

class TrainReport final : public RunObserver {
 public:
  void note(const std::string& line) override;
  void warn_here(const std::string& line) override;
  void placed(const RankPlace& place) override;
  double peak_flops() const override { return peak_flops_; }
  void started(const RunStart& run) override;
  void stepped(const StepMetrics& step) override;
  void validated(const ValidationMetrics& validation) override;
  void saved(const std::string& checkpoint) override;
  void continued(const Continuation& how) override;
  void ended(const RunResult& result) override;
  void sampled(int64_t step, const std::string& text) override;

 private:
  void compare_with_prediction();

  double peak_flops_ = 0;  // of all devices, for MFU; 0: not known
  Progress::Options::Screen screen_ = Progress::Options::Screen::kLines;
  int64_t steps_ = 0, steps_done_ = 0;  // of the whole run, and before this one
  int64_t patience_ = 0;                // evaluations
  std::optional<Progress> progress_;    // while steps are done
  std::optional<StepMetrics> last_;
  std::vector<double> step_seconds_;  // kept where a step's time was predicted
};

}  // namespace trireme::cli
