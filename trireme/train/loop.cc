// The run, in the order in which things happen.
#include "trireme/train/loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/ops/table.h"
#include "trireme/passes/pins.h"
#include "trireme/train/agreement.h"
#include "trireme/train/checkpoint/checkpoint.h"
#include "trireme/train/data/loader.h"
#include "trireme/train/optim/schedule.h"
#include "trireme/train/progress.h"
#include "trireme/train/rank_states.h"
#include "trireme/train/replica_check.h"
#include "trireme/train/resume_check.h"
#include "trireme/train/run_folder.h"
#include "trireme/train/run_lock.h"
#include "trireme/train/sampler.h"
#include "trireme/train/trainer.h"
#include "trireme/train/weights.h"

namespace trireme {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

int thread_count(const TrainOptions& train, int ranks_here) {
  return train.threads ? static_cast<int>(train.threads)
                       : std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / ranks_here);
}

// With the batch that the ranks of the plan share.
Config with_batch(Config config, const Plan& plan) {
  use_batch_per_rank(config, batch_parts(plan));
  return config;
}

// All that the run is made with, which is the same on all ranks or an Error.
Facts agreed_facts(ResolvedConfig config, const OpenedData& data, const RunContext& context) {
  config.config.model = complete_model(config.config, data);
  Facts facts = facts_of(config, context.ranks.plan);
  for (Fact& fact : facts_of(data)) facts.push_back(std::move(fact));
  if (context.world) require_agreement(facts, *context.world);
  return facts;
}

class Run {
 public:
  Run(const ResolvedConfig& resolved, const RunContext& context)
      : config_(with_batch(resolved.config, context.ranks.plan)),
        context_(context),
        data_(open_run_data(config_, context.default_text)),
        facts_(agreed_facts({config_, resolved.origins}, data_, context)),
        model_(complete_model(config_, data_)),
        device_(make_device(
            {.kind = config_.train.device, .threads = thread_count(config_.train, context.ranks_here)})),
        trainer_(model_, config_.train, config_.optim,
                 {config_.train.batch / config_.train.accumulate, data_.input}, *device_, context.ranks),
        loader_(data_.train, {.batch = config_.train.batch,
                              .seed = static_cast<uint64_t>(config_.train.seed),
                              .parts = trainer_.own_rows()}),
        replicas_(trainer_, context.ranks),
        folder_(make_run_folder(config_.run)),
        checkpoints_(folder_, config_.run.keep, checkpoint_peers(context.ranks)) {
    if (leads()) lock_.emplace(folder_);
  }

  RunResult go() {
    const int64_t first = start();
    replicas_.compare(first);
    if (leads()) {
      describe(first);
      metrics_.emplace(folder_, first, language() ? "tokens_per_second" : "samples_per_second");
      progress_.emplace(make_progress());
    }
    RunResult result{RunResult::End::kFinished, folder_, first, 0};
    const Clock::time_point start_of_steps = Clock::now();
    const double seconds_before = leads() ? metrics_->seconds() : 0;
    const double per_sample = language() ? static_cast<double>(data_.input.elements()) : 1.0;
    context_.on_signal(RunContext::OnSignal::kStop);
    for (int64_t step = first; step < config_.train.steps; ++step) {
      const Clock::time_point begin = Clock::now();
      Batch& batch = loader_.next();
      const double rate =
          learning_rate(config_.optim, config_.schedule, config_.train.batch, config_.train.steps, step);
      const StepResult done = trainer_.step(batch, step, rate);
      result.steps = step + 1;
      result.loss = done.loss;
      const double seconds = seconds_since(begin);
      critical_batch_.add(done.squares);
      const StepMetrics line{step + 1,
                             done.loss,
                             rate,
                             done.norm,
                             static_cast<double>(config_.train.batch) * per_sample / seconds,
                             seconds,
                             context_.ranks.communicator ? context_.ranks.communicator->take_seconds() : 0,
                             trainer_.program().peak_bytes(),
                             samples_seen(),
                             seconds_before + seconds_since(start_of_steps),
                             critical_batch(done)};
      if (leads()) {
        metrics_->write(line);
        progress_->step(line);
        if (const std::string problem = metrics_->take_problem(); !problem.empty())
          note(fmt::format("warning: {}; its lines are kept and tried again", problem));
      }
      if (done.skipped) note(skip_note(step + 1));

      const bool last = step + 1 == config_.train.steps;
      const bool stopping = asked_to_stop() && !last;
      if ((due(step + 1, config_.train.eval_every) || last) && !stopping) validate_now(step + 1);
      if (last || stopping) {
        save(step + 1);
      } else if (due(step + 1, config_.run.checkpoint_every) || step + 1 == retry_at_) {
        try_to_save(step + 1);
      } else if (due(step + 1, config_.train.compare_every)) {
        replicas_.compare(step + 1);
      }
      if (stopping) {
        result.end = RunResult::End::kStopped;
        note(fmt::format("stopped after step {}; the same command with --run.dir={} goes on from here",
                         step + 1, folder_));
        break;
      }
    }
    context_.on_signal(RunContext::OnSignal::kEndAtOnce);
    if (leads()) {
      progress_->finish();
      metrics_->finish();
    }
    if (leads() && first >= config_.train.steps) {
      fmt::print(
          "this run is finished: {} of {} steps are done; raise train.steps to go on, or set run.dir to "
          "another folder\n",
          first, config_.train.steps);
    } else if (leads() && result.end == RunResult::End::kFinished) {
      fmt::print("finished: {} steps, in {}\n", result.steps, folder_);
    }
    if (result.end == RunResult::End::kFinished) show_sample();
    return result;
  }

 private:
  bool leads() const { return context_.ranks.rank == 0; }
  void note(const std::string& text) {
    if (leads()) progress_->note(text);
  }
  // Ranks may hear of it at different steps; they stop together.
  bool asked_to_stop() {
    int32_t asked = context_.stop->load() ? 1 : 0;
    for (const Axis& axis : context_.ranks.plan.mesh.axes()) {
      if (axis.size == 1) continue;
      context_.ranks.communicator->all_reduce(axis.name, reinterpret_cast<std::byte*>(&asked), 1, DType::i32,
                                              Communicator::Reduction::kMax);
    }
    return asked != 0;
  }
  int64_t samples_seen() const {
    const DataPosition position = loader_.position();
    return position.epoch * data_.train->size() + position.index;
  }
  // In samples, as train.batch is.
  std::optional<double> critical_batch(const StepResult& done) const {
    const std::optional<double> targets = critical_batch_.targets();
    if (!config_.train.noise_scale || !targets || done.squares.count == 0) return std::nullopt;
    return *targets * static_cast<double>(config_.train.batch) / done.squares.count;
  }
  std::string skip_note(int64_t step) const {
    return fmt::format("step {}: the gradient is not finite; skipped{}", step,
                       precision_of(config_.train) == DType::f16
                           ? fmt::format(", loss scale now {}", trainer_.loss_scale)
                           : "");
  }
  bool language() const { return data_.vocab > 0; }
  static bool due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

  // Starting values, or those of the newest checkpoint; returns the number of steps that are done. Nothing is
  // written before it is clear that the run goes on.
  int64_t start() {
    if (config_.run.resume == "never" && leads()) {
      if (const std::string earlier = set_aside(folder_); !earlier.empty())
        fmt::print("run.resume is never: what was in {} is now in {}\n", folder_, earlier);
    }
    const std::optional<LoadedCheckpoint> found =
        config_.run.resume == "never" ? std::nullopt : checkpoints_.load_latest();
    if (found) {
      go_on(*found);
    } else if (config_.run.resume == "always") {
      throw_error("run.resume is 'always', but {} holds no checkpoint", checkpoints_.path());
    } else {
      trainer_.initialise(static_cast<uint64_t>(config_.train.seed));
      start_from_weights();
    }
    if (leads()) {
      checkpoints_.clean_up();
      write_run_description(folder_, config_);
    }
    return found ? found->state.step : 0;
  }

  void go_on(const LoadedCheckpoint& found) {
    const ResumeChanges changes = changes_since(found.state, facts_);
    if (leads()) {
      for (const std::string& message : found.messages) fmt::print("{}\n", message);
      for (const std::string& change : changes.told) fmt::print("since {}: {}\n", found.path, change);
    }
    if (!changes.refused.empty()) {
      const std::string text = join(changes.refused, "; ");
      if (config_.run.resume != "force") {
        throw_error(
            "cannot go on from {}: {}. Give the run what it began with, choose another run.dir, or set "
            "run.resume=never to start anew; run.resume=force goes on regardless",
            found.path, text);
      }
      if (leads()) fmt::print("since {}, and gone on by force: {}\n", found.path, text);
    }
    const RankStates states = states_of(trainer_);
    found.model.read_all(states.model);
    found.optimizer.read_all(states.optimizer);
    loader_.seek(found.state.data);
    trainer_.loss_scale = found.state.loss_scale;
    trainer_.scale_age = found.state.scale_age;
    saved_ = found.path;
    if (leads()) fmt::print("goes on from {} (step {})\n", found.path, found.state.step);
  }

  // train.init_from, over the starting values.
  void start_from_weights() {
    if (config_.train.init_from.empty()) return;
    const RankStates states = states_of(trainer_);
    const std::string source =
        read_weights(config_.train.init_from, model_, states.model, checkpoint_peers(context_.ranks));
    if (leads()) fmt::print("weights  from {}\n", source);
  }

  void describe(int64_t first) const {
    fmt::print("data     {}\n", data_.summary);
    fmt::print("model    {}: {:.2f} M parameters, {}\n", model_.family,
               static_cast<double>(trainer_.parameter_count()) / 1e6, config_.train.precision);
    const Program& program = trainer_.program();
    fmt::print("memory   {} planned: {} of states, {} of activations, {} of inputs\n",
               format_bytes(program.peak_bytes()), format_bytes(program.state_bytes),
               format_bytes(program.arena_bytes), format_bytes(program.input_bytes));
    const Plan& plan = context_.ranks.plan;
    if (plan.mesh.ranks() > 1) fmt::print("plan     {} on the mesh {}\n", plan.preset, to_string(plan.mesh));
    if (first >= config_.train.steps) {
      fmt::print("run      all {} steps are done, in {}\n", config_.train.steps, folder_);
      return;
    }
    fmt::print("run      steps {} to {} on {}{}, in {}\n", first + 1, config_.train.steps,
               plan.mesh.ranks() > 1 ? fmt::format("{} ranks of ", plan.mesh.ranks()) : "",
               device_->description(), folder_);
    std::fflush(stdout);
  }

  Progress make_progress() const {
    return Progress({.steps = config_.train.steps,
                     .log_every = config_.train.log_every,
                     .rate_unit = language() ? "tok/s" : "img/s",
                     .flops_per_step = model_flops(model_, trainer_.program(), config_.train.batch,
                                                   std::max(config_.train.accumulate, config_.train.shards)),
                     .peak_flops = context_.peak_flops,
                     .screen = context_.screen});
  }

  void validate_now(int64_t step) {
    if (!data_.validation) return;
    LoaderOptions options = evaluation(config_.train.batch / config_.train.accumulate);
    options.parts = trainer_.own_evaluation_rows();
    Loader loader(data_.validation, options);
    Evaluation total;
    for (int64_t i = 0; i < config_.train.eval_batches; ++i) {
      Batch& batch = loader.next();
      trainer_.evaluate(batch, total);
      if (batch.ends_epoch) break;
    }
    const double accuracy = total.count > 0 ? total.correct / total.count : 0;
    if (leads())
      metrics_->write(ValidationMetrics{step, total.loss, accuracy, static_cast<int64_t>(total.count)});
    note(fmt::format("step {}  validation loss {:.4f}  accuracy {:.2f}%  ({:.0f} targets)", step, total.loss,
                     100 * accuracy, total.count));
  }

  // A checkpoint that can not be written now may be later, and the run has more to lose than it: tried again
  // after 1, 2, 4, … steps.
  void try_to_save(int64_t step) {
    try {
      save(step);
    } catch (const NotSaved& error) {
      retry_after_ = std::max<int64_t>(1, 2 * retry_after_);
      retry_at_ = step + retry_after_;
      note(fmt::format("warning: {}. Tried again after step {}", error.what(), retry_at_));
      if (!leads() && error.failed() == NotSaved::Where::kHere)
        fmt::print(stderr, "warning: {}\n", error.what());
    }
  }

  void save(int64_t step) {
    replicas_.compare(step);  // or it would be mixed from what differs
    TrainState state;
    state.step = step;
    state.seed = static_cast<uint64_t>(config_.train.seed);
    state.data = loader_.position();
    state.loss_scale = trainer_.loss_scale;
    state.scale_age = trainer_.scale_age;
    for (const Fact& fact : facts_) state.made_with[fact.name] = fact.value;
    const RankStates share = states_to_write(trainer_, context_.ranks);
    saved_ = checkpoints_.save(state, share.model, share.optimizer);
    retry_at_ = retry_after_ = 0;
    note(fmt::format("saved {}", saved_));
  }

  void show_sample() {
    if (!data_.tokenizer || config_.run.sample_tokens == 0 || !leads() || saved_.empty()) return;
    Sampler sampler(model_, *device_);
    sampler.load(open_checkpoint(saved_).model);  // this rank alone may not have all weights
    SampleOptions options;
    options.tokens = config_.run.sample_tokens;
    std::vector<int32_t> drawn;
    sampler.generate(data_.tokenizer->encode("\n"), options, [&](int32_t token) { drawn.push_back(token); });
    fmt::print("\na sample of what it learned:\n{}\n", printable(data_.tokenizer->decode(drawn)));
  }

  Config config_;
  RunContext context_;
  OpenedData data_;
  Facts facts_;
  ModelOptions model_;
  std::unique_ptr<Device> device_;
  Trainer trainer_;
  Loader loader_;
  ReplicaCheck replicas_;
  std::string folder_;
  Checkpoints checkpoints_;
  CriticalBatch critical_batch_;
  std::string saved_;                       // the newest checkpoint
  int64_t retry_at_ = 0, retry_after_ = 0;  // steps; of one that was not written
  // Of rank 0 alone.
  std::optional<RunLock> lock_;
  std::optional<MetricsFile> metrics_;
  std::optional<Progress> progress_;
};

}  // namespace

OpenedData open_run_data(const Config& config, const std::string& default_path) {
  DataOptions options;
  options.kind = config.data.path.empty() ? "text" : config.data.kind;
  options.path = config.data.path.empty() ? default_path : config.data.path;
  options.validation = config.data.validation_fraction;
  options.seed = static_cast<uint64_t>(config.train.seed);
  options.tokenizer = config.data.tokenizer;
  options.tokenizer_path = config.data.tokenizer_path;
  options.seq = config.model.seq;
  options.vocab = config.model.vocab;
  options.folder.height = config.data.image_height;
  options.folder.width = config.data.image_width;
  options.mean.assign(config.data.mean.begin(), config.data.mean.end());
  options.deviation.assign(config.data.deviation.begin(), config.data.deviation.end());
  if (config.data.augment) {
    options.crop_padding = 4;
    options.flip = Flip::horizontal;
  }
  return open_data(options);
}

ModelOptions complete_model(const Config& config, const OpenedData& data) {
  ModelOptions model = config.model;
  const bool tokens = find_model(model.family).input == InputKind::kTokens;
  if (tokens != (data.vocab > 0)) {
    throw_error("model.family = {} learns from {}, but the data is {} ({})", model.family,
                tokens ? "text" : "images", data.kind, data.summary);
  }
  if (tokens && model.vocab == 0) model.vocab = data.vocab;
  if (!tokens && model.classes == 0) model.classes = static_cast<int64_t>(data.classes.size());
  if (!tokens && model.classes < static_cast<int64_t>(data.classes.size())) {
    throw_error("model.classes is {}, but the data has {} classes", model.classes, data.classes.size());
  }
  return model;
}

RunResult run_training(const ResolvedConfig& config, const RunContext& context) {
  return Run(config, context).go();
}

}  // namespace trireme
