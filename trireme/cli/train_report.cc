// See train_report.h.
#include "trireme/cli/train_report.h"

#include <fmt/format.h>

#include <cstdio>

#include "trireme/base/output.h"
#include "trireme/base/statistics.h"
#include "trireme/base/text.h"
#include "trireme/base/thread_pool.h"
#include "trireme/bench/ceilings.h"
#include "trireme/bench/device_ceilings.h"
#include "trireme/run/run_setup.h"
#include "trireme/train/step.h"

namespace trireme::cli {
namespace {

// Of all ranks, which measure at the same time.
double measured_peak_flops(const RankPlace& place) {
  if (place.train.device != "cpu")
    return bench::measure_product_flops_per_second(
               *make_device({.kind = place.train.device, .rank_here = place.rank_here}),
               precision_of(place.train)) *
           place.ranks;
  constexpr double kSeconds = 0.02;  // every run waits for it
  ThreadPool pool(thread_count(place.train, place.ranks_here));
  return bench::measure_flops_per_second(pool, kSeconds) * place.ranks;
}

}  // namespace

// A launcher of others may give its ranks a terminal of its own, whatever it does with what they print.
void TrainReport::placed(const RankPlace& place) {
  const double peak = measured_peak_flops(place);  // ranks measure together: they share the machine
  if (place.rank != 0) return;
  peak_flops_ = peak;
  const bool own = place.launcher == comm::Launcher::none || place.launcher == comm::Launcher::local;
  screen_ = own ? detect_screen() : Progress::Options::Screen::kLines;
}

// What is noted may be of names in files and folders that anybody made.
void TrainReport::note(const std::string& line) {
  if (progress_) {
    progress_->note(printable(line));
  } else {
    say("{}\n", printable(line));
  }
}

void TrainReport::warn_here(const std::string& line) {
  say(stderr, "warning: {}\n", printable(line));
}

void TrainReport::started(const RunStart& run) {
  const TrainOptions& train = run.config.train;
  steps_ = train.steps;
  steps_done_ = run.steps_done;
  patience_ = train.patience;
  const bool tokens = run.data.vocab > 0;
  progress_.emplace(Progress::Options{.steps = train.steps,
                                      .log_every = train.log_every,
                                      .rate_unit = tokens ? "tok/s" : "img/s",
                                      .screen = screen_});
  say("data     {}\n", printable(run.data.summary));
  if (!run.data.path.empty()) say("         from {}\n", printable(run.data.path));
  const Program& program = run.program;
  const int64_t trained = trained_parameters(program);
  say("model    {}: {:.2f} M parameters{}, {}\n", run.model.record.family,
      static_cast<double>(run.parameters) / 1e6,
      trained < run.parameters ? fmt::format(", {:.2f} M of them trained", static_cast<double>(trained) / 1e6)
                               : "",
      train.precision);
  say("memory   {}: states {}, activations {}, inputs {}\n", format_bytes(program.peak_bytes()),
      format_bytes(program.state_bytes), format_bytes(program.arena_bytes),
      format_bytes(program.input_bytes));
  const Plan& plan = run.plan;
  if (plan.mesh.ranks() > 1) say("plan     {} on the mesh {}\n", plan.preset, to_string(plan.mesh));
  if (steps_done_ >= steps_) {
    say("run      all {} steps are done, in {}\n", steps_, run.folder);
    return;
  }
  say("run      steps {} to {} on {}{}, in {}\n", steps_done_ + 1, steps_,
      plan.mesh.ranks() > 1 ? fmt::format("{} ranks of ", plan.mesh.ranks()) : "", run.device, run.folder);
  std::fflush(stdout);
}

void TrainReport::stepped(const StepMetrics& step) {
  progress_->step(step);
  if (!step.expected) return;
  last_ = step;
  step_seconds_.push_back(step.step_seconds);
}

// Steps in which memory is first touched take longer, hence the median.
void TrainReport::compare_with_prediction() {
  if (!last_) return;
  const ExpectedStep& expected = *last_->expected;
  const double seconds = median_of(std::move(step_seconds_));
  say("step     {:.2f} ms measured (median), {:.2f} ms predicted ({:+.1f}%)\n", 1e3 * seconds,
      1e3 * expected.seconds, 100 * (expected.seconds / seconds - 1));
  say("memory   {} measured on rank 0, {} predicted ({:+.1f}%)\n", format_bytes(last_->peak_bytes),
      format_bytes(expected.peak_bytes),
      100 * (static_cast<double>(expected.peak_bytes) / static_cast<double>(last_->peak_bytes) - 1));
}

void TrainReport::validated(const ValidationMetrics& validation) {
  note(fmt::format("step {}  validation loss {:.4f}  accuracy {:.2f}%  ({} targets)", validation.step,
                   validation.loss, 100 * validation.accuracy, validation.targets));
}

void TrainReport::saved(const std::string& checkpoint) {
  note(fmt::format("saved {}", checkpoint));
}

void TrainReport::continued(const Continuation& how) {
  note(fmt::format("goes on after step {} on {} rank{}, {:.2f} s after {}{}", how.after, how.ranks,
                   how.ranks == 1 ? "" : "s", how.seconds, how.why,
                   how.again > 0
                       ? fmt::format("; {} step{} made again", how.again, how.again == 1 ? " is" : "s are")
                       : ""));
}

void TrainReport::ended(const RunResult& result) {
  if (result.end == RunResult::End::kStopped || result.end == RunResult::End::kTimeIsUp) {
    note(
        fmt::format("{} after step {}; the same command with --run.dir={} resumes from here",
                    result.end == RunResult::End::kStopped ? "stopped" : "the time is up (train.max_minutes)",
                    result.steps, result.folder));
  }
  progress_->finish();
  progress_.reset();
  compare_with_prediction();
  if (steps_done_ >= steps_) {
    say("this run is finished: {} of {} steps are done; raise train.steps to go on, or set run.dir to "
        "another folder\n",
        steps_done_, steps_);
  } else if (result.end == RunResult::End::kNoBetter) {
    say("ended early after step {}: train.patience = {} evaluations in a row had no lower held-out loss; in "
        "{}. Raise train.patience to go on\n",
        result.steps, patience_, result.folder);
  } else if (result.end == RunResult::End::kFinished) {
    say("finished: {} steps, in {}\n", result.steps, result.folder);
  }
}

void TrainReport::sampled(int64_t step, const std::string& text) {
  if (progress_) return note(fmt::format("a sample after step {}:\n{}", step, text));
  say("\na sample of what it learned:\n{}\n", printable(text));
}

}  // namespace trireme::cli
