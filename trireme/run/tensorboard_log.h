// run.tensorboard: the numbers of a run as TensorBoard reads them, in a file of the run's folder. One more
// listener, which can neither stop nor slow the run: what can not be written is kept and tried again.
#pragma once

#include <optional>
#include <string>

#include "trireme/run/line_file.h"
#include "trireme/run/observer.h"

namespace trireme {

class TensorBoardLog final : public ForwardingObserver {
 public:
  using ForwardingObserver::ForwardingObserver;

  void started(const RunStart& run) override;
  void stepped(const StepMetrics& step) override;
  void rewound(int64_t step, const std::string& line) override;
  void validated(const ValidationMetrics& validation) override;
  void sampled(int64_t step, const std::string& text) override;
  void ended(const RunResult& result) override;

 private:
  void add(const std::string& record);

  std::optional<LineFile> file_;
  std::string rate_name_;  // of samples_per_second
  int64_t step_ = 0;
};

}  // namespace trireme
