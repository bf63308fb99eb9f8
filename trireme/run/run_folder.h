// The folder that a run leaves behind:
//
//   config.toml      the resolved settings
//   plan.json        how it is spread over ranks
//   data.json        of image data: names of the classes, and by what pixels are normalised
//   version.txt      which Trireme wrote it
//   run.json         of what it is made, where and how large; see run_record.h
//   events.jsonl     what happened, and how it ended
//   metrics.jsonl    one JSON object a step; one for each validation; and where ranks mix weights at their
//   own
//                    pace, one for each step of another rank
//   samples.jsonl    texts that a language model wrote; see run_record.h
//   ranks/N.jsonl    times of each rank, where there are several; see rank_log.h
//   plan_facts.json  what the plan makes of the model; see plan_facts.h
//   timeline/        what each rank did in one step; see step_timeline.h
//   checkpoints/     see checkpoint/checkpoint.h
//   .lock            see run_lock.h
//   earlier-1/, …    the same of runs that were here before and were set aside
//
// docs/run_folder.md describes all fields.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/optim/tallies.h"
#include "trireme/plan/plan.h"
#include "trireme/program/program.h"
#include "trireme/run/config.h"
#include "trireme/run/line_file.h"
#include "trireme/train/trainer.h"

namespace trireme {

// The folder of run.dir, or a new one in runs/ named by date and time when that is empty. Makes it where it
// is not there, and takes what it made away again when no run has begun in it: one that is refused leaves
// nothing.
class RunFolder {
 public:
  explicit RunFolder(const RunOptions& run);  // throws Error
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  void make(const std::string& folder);

  std::string path_;
  std::vector<std::string> made_;  // folders, each within the one before
};
// Moves what an earlier run left into a folder of its own, and returns that; "" when there is nothing.
std::string set_aside(const std::string& folder);
void write_run_description(const std::string& folder, const Config& config, const Plan& plan);
// What later users of the model must know of the images that it learned from; all is empty for other data.
struct DataDescription {
  std::vector<std::string> classes;    // names by label
  std::vector<float> mean, deviation;  // of the training images, or as set
  Shape input = {};                    // of an image; none in folders of older runs
};
void write_data_description(const std::string& folder,
                            const DataDescription& data);  // nothing if all is empty
// Empty where the run has no such file. Throws Error if it is damaged.
DataDescription read_data_description(const std::string& folder);
// The plan of the run that `folder` has a checkpoint of; nothing where there is none.
std::optional<Plan> plan_of_earlier_run(const std::string& folder);
inline constexpr const char* kTensorBoardFile =
    "events.out.tfevents.";  // how their names begin (run.tensorboard)
std::string_view version();  // of Trireme, "0.1.0"

// Puts a file in the place of another one, whole or, on a full disk, not at all. Throws Error.
void replace_file(const std::string& path, const std::string& text);
// Of a log, removes the lines of steps after `step`, and those that are no JSON (a crash in the middle of
// one).
struct KeptLines {
  double seconds = 0;     // the last in those that stay
  int64_t last_step = 0;  // of all lines that were there
};
KeptLines keep_lines_up_to(const std::string& path, int64_t step);
// Memory of a rank as planned, in bytes, by kind: roles of states, "activations", "communication", "inputs".
std::map<std::string, size_t> memory_by_kind(const Program& program);

// What a step was expected to take before the run, by a model of the machine.
struct ExpectedStep {
  double seconds = 0;
  size_t peak_bytes = 0;  // of rank 0
};

// What number formats lost in a step (train/numeric_health.h), of all ranks together.
struct NumericMetrics {
  DType format;
  double loss_scale = 1;
  StepNumbers counts = {};

  // By the names that they have in metrics.jsonl.
  std::vector<std::pair<std::string_view, double>> shares(TensorKind kind) const;
};

struct StepMetrics {
  int64_t step = 0;  // from 1
  double loss = 0, lr = 0, grad_norm = 0;
  double samples_per_second = 0;  // tokens for language models
  double step_seconds = 0, comm_seconds = 0;
  uint64_t bytes_sent = 0;  // by this rank in the step
  size_t peak_bytes = 0;
  int64_t samples = 0;                   // seen in the whole run
  double seconds = 0;                    // of the whole run, with what it did before it was stopped
  std::optional<double> critical_batch;  // samples; see critical_batch.h
  // Where the plan has an exchange: how many times less was sent than dense sums would have, in all steps of
  // this run so far; the norm of what this rank has not sent yet, where its method keeps that; and the share
  // of the step that went by in waiting for other ranks.
  std::optional<double> compression_ratio = {}, residual_norm = {}, waiting_share = {};
  std::optional<ExpectedStep> expected = {};
  std::vector<ExpertUse> experts = {};  // of each layer that has some
  // Of a server, and of a rank that mixes weights at its own pace: by how many updates gradients, or by how
  // many steps weights were behind, and in which order they came (arrival_order.h).
  std::optional<double> staleness_mean = {}, staleness_max = {};
  std::vector<int> arrivals = {};
  std::optional<double> mfu = {};              // share of the devices' peak that the model's arithmetic uses
  double time = 0;                             // when the step ended, in seconds since 1970
  StepResult::Bad bad = StepResult::Bad::kNo;  // why it was skipped
  int64_t rewinds = 0;                         // so far
  std::optional<NumericMetrics> numbers = {};
};
// What another rank than 0 took in a step, or rank 0 after the last one: as StepMetrics::arrivals.
struct RankArrivals {
  int64_t step = 0;
  int rank = 0;
  std::vector<int> arrivals = {};
};
struct ValidationMetrics {
  int64_t step = 0;
  double loss = 0, accuracy = 0;
  int64_t targets = 0;  // that were counted
  double time = 0;      // as StepMetrics::time
};

// metrics.jsonl.
class MetricsFile {
 public:
  // Lines of steps after `step` are removed: a run that goes on from a checkpoint writes them anew.
  MetricsFile(const std::string& folder, int64_t step, std::string_view rate_name);
  double seconds() const { return before_.seconds; }  // that the steps before took
  // Of which an earlier start wrote a line, the last.
  int64_t last_step_before() const { return before_.last_step; }
  void write(const StepMetrics& metrics);
  void write(const ValidationMetrics& metrics);
  void write(const RankArrivals& arrivals);
  // Why lines are waiting, told once until all are written again; "" otherwise.
  std::string take_problem() { return file_->take_problem(); }
  void finish() { file_->finish(); }  // throws Error when lines are still waiting

 private:
  std::string rate_name_;  // "tokens_per_second" or "samples_per_second"
  KeptLines before_;
  std::optional<LineFile> file_;
};

}  // namespace trireme
