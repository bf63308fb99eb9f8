// What happens in a run, told to whoever wants to know: the run itself prints nothing. The command line's
// observer is cli/train_report.h.
#pragma once

#include <string>
#include <string_view>

#include "trireme/comm/launch/environment.h"
#include "trireme/data/open_data.h"
#include "trireme/models/model.h"
#include "trireme/plan/plan.h"
#include "trireme/program/program.h"
#include "trireme/run/config.h"
#include "trireme/run/exit_code.h"
#include "trireme/run/run_folder.h"

namespace trireme {

struct RunResult {
  // kStopped: by a signal. kTimeIsUp: train.max_minutes. kNoBetter: train.patience. kRegroup: goes on with
  // another number of ranks, which are started anew.
  enum class End { kFinished, kStopped, kTimeIsUp, kNoBetter, kRegroup } end = End::kFinished;
  std::string folder;
  int64_t steps = 0;  // done in all
  double loss = 0;    // of the last step
};
// "finished", as files of a run and bindings say it.
constexpr std::string_view name(RunResult::End end) {
  switch (end) {
    case RunResult::End::kFinished:
      return "finished";
    case RunResult::End::kStopped:
      return "stopped";
    case RunResult::End::kTimeIsUp:
      return "time_is_up";
    case RunResult::End::kRegroup:
      return "regroup";
    case RunResult::End::kNoBetter:
      break;
  }
  return "no_better";
}
constexpr ExitCode exit_code_of(RunResult::End end) {
  if (end == RunResult::End::kStopped) return kInterrupted;
  return end == RunResult::End::kTimeIsUp ? kTimeIsUp : kOk;
}

// What a run is made of, when all is in place.
struct RunStart {
  const Config& config;
  const Model& model;
  const OpenedData& data;
  const Plan& plan;
  const Program& program;  // of this rank
  int64_t parameters;      // of the whole model
  double flops_per_step;   // that the model asks for
  std::string device, folder;
  int64_t steps_done;  // by the run that this one goes on from
};

// Where a rank is, before its run starts.
struct RankPlace {
  comm::Launcher launcher;
  int rank, ranks;            // this one, and how many are in the job
  int ranks_here, rank_here;  // ranks on this host, and the number of this one among them
  const TrainOptions& train;
};

// A job whose ranks were started again, when they have made their first step.
struct Continuation {
  std::string why;
  int64_t after = 0;  // the step from which they went on
  int64_t again = 0;  // steps that were done before, and were or will be made again
  int ranks = 1;
  double seconds = 0;  // since the launcher knew why, the first step included
};

// Only rank 0 calls its observer, but all ranks call placed() and warn_here(). Ranks that share a GPU are
// threads, and call these two of one observer at the same time. Override what is of interest.
class RunObserver {
 public:
  virtual ~RunObserver() = default;

  // A line for people: what became of an earlier run, what has changed since, what could not be written.
  virtual void note(const std::string& /*line*/) {}
  // What this rank could not do, whichever it is.
  virtual void warn_here(const std::string& /*line*/) {}

  // Called on all ranks of a job (job.h) at the same time, when data and plan are there.
  virtual void placed(const RankPlace& /*place*/) {}
  // FLOPs a second that the devices of all ranks could do at most, for the share that the model's arithmetic
  // uses (MFU); 0: not known. Asked for after placed().
  virtual double peak_flops() const { return 0; }
  virtual void started(const RunStart& /*run*/) {}
  virtual void stepped(const StepMetrics& /*step*/) {}
  virtual void validated(const ValidationMetrics& /*validation*/) {}
  virtual void saved(const std::string& /*checkpoint*/) {}
  // A step had bad numbers and changed nothing; `line` says so to people.
  virtual void skipped(int64_t /*step*/, const std::string& line) { note(line); }
  // A step had bad numbers, and the run goes on from the checkpoint of `step`, or from its start.
  virtual void rewound(int64_t /*step*/, const std::string& line) { note(line); }
  // A rank was lost, and the run continues without it.
  virtual void lost_rank(const std::string& line) { note(line); }
  virtual void continued(const Continuation& /*how*/) {}
  virtual void ended(const RunResult& /*result*/) {}
  // What a language model writes after its last step, and with run.sample_every before; `step` is that of the
  // checkpoint that wrote it.
  virtual void sampled(int64_t /*step*/, const std::string& /*text*/) {}
};

// Forwards every call to another observer. Those that keep a record of a run override what they note
// down.
class ForwardingObserver : public RunObserver {
 public:
  explicit ForwardingObserver(RunObserver& next) : next_(next) {}

  void note(const std::string& line) override { next_.note(line); }
  void warn_here(const std::string& line) override { next_.warn_here(line); }
  void placed(const RankPlace& place) override { next_.placed(place); }
  double peak_flops() const override { return next_.peak_flops(); }
  void started(const RunStart& run) override { next_.started(run); }
  void stepped(const StepMetrics& step) override { next_.stepped(step); }
  void validated(const ValidationMetrics& validation) override { next_.validated(validation); }
  void saved(const std::string& checkpoint) override { next_.saved(checkpoint); }
  void skipped(int64_t step, const std::string& line) override { next_.skipped(step, line); }
  void rewound(int64_t step, const std::string& line) override { next_.rewound(step, line); }
  void lost_rank(const std::string& line) override { next_.lost_rank(line); }
  void continued(const Continuation& how) override { next_.continued(how); }
  void ended(const RunResult& result) override { next_.ended(result); }
  void sampled(int64_t step, const std::string& text) override { next_.sampled(step, text); }

 private:
  RunObserver& next_;
};

}  // namespace trireme
