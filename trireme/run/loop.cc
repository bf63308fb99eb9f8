// The run, in the order in which things happen; run_setup.h has what is settled before.
#include "trireme/run/loop.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <functional>
#include <optional>
#include <utility>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/data/loader.h"
#include "trireme/exchange/agreement_record.h"
#include "trireme/exchange/choice.h"
#include "trireme/exchange/served.h"
#include "trireme/ops/table.h"
#include "trireme/optim/lr_schedule.h"
#include "trireme/passes/pins.h"
#include "trireme/plan/agreement.h"
#include "trireme/plan/clients.h"
#include "trireme/run/agreement.h"
#include "trireme/run/bad_steps.h"
#include "trireme/run/held_out_record.h"
#include "trireme/run/memory_copies.h"
#include "trireme/run/plan_facts.h"
#include "trireme/run/plan_settings.h"
#include "trireme/run/rank_log.h"
#include "trireme/run/replica_check.h"
#include "trireme/run/resume_check.h"
#include "trireme/run/run_folder.h"
#include "trireme/run/run_lock.h"
#include "trireme/run/run_record.h"
#include "trireme/run/run_setup.h"
#include "trireme/run/sampler.h"
#include "trireme/run/saved_run.h"
#include "trireme/run/saving.h"
#include "trireme/run/step_meter.h"
#include "trireme/run/step_timeline.h"
#include "trireme/run/stop_agreement.h"
#include "trireme/run/tensorboard_log.h"
#include "trireme/run/weights.h"
#include "trireme/runtime/agree.h"
#include "trireme/train/arrival_order.h"
#include "trireme/train/rank_states.h"
#include "trireme/train/rank_steps.h"
#include "trireme/train/step_programs.h"
#include "trireme/train/trainer.h"

namespace trireme {
namespace {

// train.max_minutes, counted from now.
Clock::time_point deadline_of(const TrainOptions& train) {
  if (train.max_minutes == 0) return Clock::time_point::max();
  const std::chrono::duration<double, std::ratio<60>> minutes(train.max_minutes);
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(minutes);
}

RunResult::End end_of(StopReason reason) {
  if (reason == StopReason::kRegroup) return RunResult::End::kRegroup;
  return reason == StopReason::kTimeIsUp ? RunResult::End::kTimeIsUp : RunResult::End::kStopped;
}

// With the batch that the ranks of the plan share, and the name of the model.
Config completed(Config config, const ModelRecord& model, const Plan& plan) {
  config.model.family = model.family;
  if (config.model.lora.rank > 0) config.train.init_from = pinned_weights(config.train.init_from);
  use_batch_per_rank(config, batch_parts(plan));
  validate(config, model);
  return config;
}

// With the steps that an epoch of these samples is, where the plan speaks of epochs.
RunContext with_steps_of_epochs(RunContext context, const Config& config, const OpenedData& data) {
  const int64_t steps = (data.train->size() + config.train.batch - 1) / config.train.batch;
  context.ranks.plan.agreement = context.ranks.plan.agreement.with_epochs_as_steps(steps);
  return context;
}

// All that the run is made with, which is the same on all ranks or an Error.
Facts agreed_facts(ResolvedConfig config, const Model& model, const OpenedData& data,
                   const RunContext& context) {
  config.config.model = model.options;
  Facts facts = facts_of(config, context.ranks.plan);
  for (Fact& fact : facts_of(data)) facts.push_back(std::move(fact));
  if (context.world) require_agreement(facts, *context.world);
  return facts;
}

class Run {
 public:
  Run(const ResolvedConfig& resolved, const ModelRecord& model, const OpenedData& data,
      const RunContext& context, RunObserver& observer)
      : config_(completed(resolved.config, model, context.ranks.plan)),
        context_(with_steps_of_epochs(context, config_, data)),
        observer_(observer),
        data_(data),
        model_(model, complete_model(model, config_, data_)),
        facts_(agreed_facts({config_, resolved.origins}, model_, data_, context_)),
        held_out_(new_held_out_record()),
        bad_steps_(config_.train),
        device_(make_device({.kind = config_.train.device,
                             .threads = thread_count(config_.train, context.ranks_here),
                             .rank_here = context.rank_here,
                             .products = context.products,
                             .f32_products = f32_products_of(config_.train),
                             .links = context.device_links})),
        half_(step_half(context_.ranks.plan.agreement, context_.ranks.rank)),
        alike_(between_steps(context_.ranks)),
        trainer_(verified_program(), config_.train, step_shape(), *device_, alike_),
        loader_(data_.train, loader_options()),
        replicas_(trainer_, alike_),
        made_folder_(config_.run),
        folder_(made_folder_.path()),
        checkpoints_(folder_, config_.run.keep, savers()),
        saving_(config_, saving_mode(), checkpoints_, trainer_, alike_, held_out_, bad_steps_,
                saving_events()),
        stop_(alike_, trainer_, context_.stop, deadline_of(config_.train), context_.regroup) {
    if (!context_.memory.empty())
      memory_.emplace(context_.memory, config_.run.memory_copy_every, savers(), trainer_, alike_);
    if (leads()) lock_.emplace(folder_);
    if (leads()) dense_bytes_ = dense_bytes();
  }

  RunResult go() {
    const int64_t first = start();
    compare_replicas(first);
    if (leads()) announce(first);
    context_.on_signal(RunContext::OnSignal::kStop);  // on all ranks, before any is some steps ahead
    // A run that ended early stays ended while train.patience is the same.
    const bool ended_early = held_out_.out_of_patience();
    result_ = {ended_early ? RunResult::End::kNoBetter : RunResult::End::kFinished, folder_, first, 0};
    if (first < config_.train.steps && !ended_early) {
      begin_steps(first);
      make_steps(first);
    }
    context_.on_signal(RunContext::OnSignal::kEndAtOnce);
    if (leads()) {
      metrics_->finish();
      observer_.ended(result_);
    }
    if (result_.end == RunResult::End::kFinished || result_.end == RunResult::End::kNoBetter) show_sample();
    return result_;
  }

 private:
  bool leads() const { return context_.ranks.rank == 0; }
  bool serves() const { return half_ == StepHalf::kUpdate; }
  bool works() const { return half_ == StepHalf::kGradients; }
  ArrivalDriver* arrivals() const { return steps_ ? steps_->arrivals() : nullptr; }
  bool mixes() const { return arrivals() && !serves(); }  // at its own pace
  HeldOutRecord new_held_out_record() const {
    return {config_, data_.validation ? HeldOutRecord::HeldOut::kSome : HeldOutRecord::HeldOut::kNone};
  }
  StepShape step_shape() const { return {config_.train.batch / config_.train.accumulate, data_.input}; }
  Program verified_program() {
    Program own = step_program(model_, config_.train, config_.optim, step_shape(), *device_, context_.ranks);
    verify_before_steps(own, [&](int rank) { return programs().rank(rank, device_.get()); });
    return own;
  }
  // Of all ranks.
  const StepPrograms& programs() {
    if (!programs_)
      programs_.emplace(model_, config_.train, config_.optim, step_shape(), context_.ranks.plan);
    return *programs_;
  }
  // A file that can not be written ends nothing.
  void describe_plan() {
    try {
      const auto of_rank = [&](int rank) {
        return rank == context_.ranks.rank ? trainer_.program() : programs().rank(rank, device_.get());
      };
      const Cut cut = context_.ranks.plan.cuts_model() ? programs().cut() : Cut();
      write_plan_facts(folder_, context_.ranks.plan, cut, of_rank);
      if (!context_.simulated.empty()) write_simulated_timeline(folder_, context_.simulated);
    } catch (const Error& error) {
      note(fmt::format("warning: {}", error.what()));
    }
    programs_.reset();
  }
  void announce(int64_t first) {
    observer_.started({config_, model_, data_, context_.ranks.plan, trainer_.program(),
                       trainer_.parameter_count(), flops_per_step(), device_->description(), folder_, first});
    if (const std::string line = plan_warning(context_.ranks.plan, config_.train.accumulate); !line.empty())
      note(line);
    describe_plan();
    metrics_.emplace(folder_, first, rate_name());
  }
  std::string_view rate_name() const { return language() ? "tokens_per_second" : "samples_per_second"; }
  // All have the same weights now. From here on, some ranks may be lost where the transport allows that.
  void begin_steps(int64_t first) {
    const Agreement& how = context_.ranks.plan.agreement;
    const int ranks = context_.ranks.plan.mesh.ranks(), rank = context_.ranks.rank;
    if (half_ != StepHalf::kBoth || goes_by_arrivals(how, rank)) context_.world->barrier().wait();
    const std::vector<int> dispensable = dispensable_ranks(how);
    if (!dispensable.empty()) context_.ranks.communicator->bear_loss_of(dispensable);
    std::optional<ArrivalOrder> replay;
    if (!context_.replay.empty() && goes_by_arrivals(how, rank))
      replay = read_arrivals(context_.replay, how, ranks, rank);
    steps_.emplace(context_.ranks, trainer_, first, config_.train.steps, std::move(replay));
  }
  // A worker continues until the server says that the run is over.
  void make_steps(int64_t first) {
    StepMeter meter(measured(), trainer_);
    const int64_t recorded = config_.run.timeline_step;
    recorder_.emplace(context_.ranks.trace, context_.ranks.rank, recorded > 0 ? first + recorded : 0);
    bool begins = true;
    for (int64_t step = first; works() || step < config_.train.steps; ++step) {
      StepResult done;
      try {
        done = make_step(step, meter);
      } catch (const BadNumbers& bad) {
        if (!bad_steps_.rewinds_after(bad.kind())) throw;
        if (!bad_steps_.may_rewind())
          throw_error("{}. The run rewound to step {} train.max_rewinds = {} times before", bad.what(),
                      bad_steps_.rewind_to(), config_.train.max_rewinds);
        step = rewind(step, bad.what()) - 1;
        continue;
      }
      if (std::exchange(begins, false)) tell_continuation(first);  // a rewind may come by `first` again
      if (done.skipped && leads()) observer_.skipped(step + 1, skip_note(step + 1, done));
      if (!done.corrected.empty()) note("warning: " + done.corrected);
      report_lost_workers();
      if (works() ? run_is_over(done) : ends_after(step + 1)) return;
    }
  }

  // `steps` are done. Returns how many are now. The loader stays where it is, so that the batches since the
  // checkpoint are left out.
  int64_t rewind(int64_t steps, const std::string& why) {
    saving_.finish(steps);  // what is being written may be what is rewound to
    const int64_t to = bad_steps_.rewind_to();
    held_out_ = new_held_out_record();
    if (to > 0) {
      const std::string path = (std::filesystem::path(checkpoints_.path()) / checkpoint_name(to)).string();
      const LoadedCheckpoint found = open_checkpoint(path, savers());
      bad_steps_.rewound(found.state.extra, path);
      take_states(found);
    } else {
      bad_steps_.rewound("{}", folder_);
      begin_anew();
    }
    if (memory_) memory_->rewound_to(to);
    rank_log_.reset();
    if (!leads()) return to;
    metrics_.emplace(folder_, to, rate_name());
    observer_.rewound(
        to, fmt::format("rewinds from step {} to step {} and leaves out the batches between: {}", steps + 1,
                        to, why));
    return to;
  }

  void tell_continuation(int64_t first) {
    if (!context_.again || !leads()) return;
    observer_.continued({.why = context_.again->why,
                         .after = first,
                         .again = std::max<int64_t>(0, metrics_->last_step_before() - first),
                         .ranks = std::max(1, context_.ranks.plan.mesh.ranks()),
                         .seconds = wall_seconds() - context_.again->since});
  }

  // What is measured of its steps.
  StepMeter::Run measured() const {
    const double per_sample = language() ? static_cast<double>(tokens_of(data_.input)) : 1.0;
    StepMeter::Run run{.batch = config_.train.batch,
                       .units = static_cast<double>(config_.train.batch) * busy_share() * per_sample,
                       .noise_scale = config_.train.noise_scale,
                       .expected = context_.expected};
    if (!leads()) return run;
    run.flops = flops_per_step();
    run.dense_bytes = dense_bytes_;
    run.seconds_before = metrics_->seconds();
    return run;
  }

  // One step, and its line of metrics.
  StepResult make_step(int64_t step, StepMeter& meter) {
    meter.begin();
    recorder_->begin(step + 1);
    const double traced_from = context_.ranks.trace ? context_.ranks.trace->now() : 0;
    Batch& batch = loader_.next();
    if (works()) trainer_.executor().tell(kAsked, stop_.asked() ? 1 : 0);
    const double rate = learning_rate(config_.optim, config_.lr_schedule, config_.train.batch,
                                      config_.train.steps, std::min(step, config_.train.steps - 1));
    trainer_.loss_limit = bad_steps_.loss_limit();
    const StepResult done = steps_->step(batch, step, rate, batches_ahead());
    bad_steps_.add(done);
    result_.steps = step + 1;
    result_.loss = done.loss;
    if (Trace* trace = context_.ranks.trace; trace && trace->is_recording())
      trace->add({.name = fmt::format("step {}", step + 1), .begin = traced_from, .end = trace->now()});
    recorder_->end(step + 1, folder_);
    StepMetrics line =
        meter.end(step + 1, done, rate, samples_seen(), arrivals(), leads() ? observer_.peak_flops() : 0);
    line.bad = done.bad;
    line.rewinds = bad_steps_.rewinds_so_far();
    if (done.numbers) line.numbers = of_all_ranks(*done.numbers);
    log(line);
    return done;
  }
  NumericMetrics of_all_ranks(StepNumbers numbers) {
    for (NumberCounts& counts : numbers)
      agree(context_.ranks.communicator, alike_.plan.mesh, std::span(counts.of),
            Communicator::Reduction::kSum);
    return {precision_of(config_.train), trainer_.loss_scale, numbers};
  }

  void log(const StepMetrics& line) {
    if (arrivals()) logged_ = line.step;
    log_rank(line);
    if (!leads()) return;
    metrics_->write(line);
    observer_.stepped(line);
    if (const std::string problem = metrics_->take_problem(); !problem.empty())
      note(fmt::format("warning: {}; its lines are kept and tried again", problem));
  }

  // Begins after the first step: by then rank 0 has set aside what an earlier run left.
  void log_rank(const StepMetrics& line) {
    const int ranks = context_.ranks.plan.mesh.ranks();
    if (ranks < 2) return;
    if (!rank_log_) rank_log_.emplace(folder_, trainer_.program(), ranks, line.step - 1);
    rank_log_->add(line);
  }

  bool run_is_over(const StepResult& done) {
    if (done.over == StepResult::Over::kStopped) result_.end = end_of(stop_.reason());
    return done.over != StepResult::Over::kNo;
  }

  // Validates and saves what is due after so many steps. Returns whether they are the last.
  bool ends_after(int64_t steps) {
    if (serves() && arrivals()->is_asked_to_stop()) stop_.tell();
    const bool last = steps == config_.train.steps;
    const StopReason reason = mixes() ? mixing_ends(steps, last, stop_.reason()) : stop_.agreed_after(steps);
    const bool stopping = reason != StopReason::kNone && (mixes() || !last);
    bool best = false;  // so far
    saving_.poll(steps);
    const bool regroups = stopping && reason == StopReason::kRegroup;
    const auto begins_checkpoint = [&] { return best || saving_.is_due(steps); };
    if ((due(steps, config_.train.eval_every) || last) && (!stopping || regroups)) best = validate_now(steps);
    const bool early = !last && (!stopping || regroups) && held_out_.out_of_patience();
    if (early && mixes()) mixing_ends(steps, /*last=*/false, StopReason::kTimeIsUp);
    // Also where the run happens to stop here: it rewinds to the same steps however often it is stopped.
    if (begins_checkpoint()) bad_steps_.saves(steps);
    if (regroups && !early && !begins_checkpoint() && copy_in_memory(steps)) {
      saving_.finish(steps);
    } else if (last || stopping || early) {
      saving_.save(ended_with_ > 0 ? ended_with_ : steps);
      if (serves()) let_workers_go(stopping ? ArrivalDriver::Why::kStopped : ArrivalDriver::Why::kThrough);
    } else if (begins_checkpoint()) {
      saving_.try_to_save(steps);
    } else if (due(steps, config_.train.compare_every)) {
      compare_replicas(steps);
    }
    if (!last && !stopping && !early && wants_copy(steps)) copy_in_memory(steps);
    if (!last && !stopping && !early) sample_if_due();
    if (stopping || early) result_.end = early ? RunResult::End::kNoBetter : end_of(reason);
    return stopping || early;
  }
  // Not of a state whose best checkpoint, or that to rewind to, is still being written: who goes on from it
  // would miss that one.
  bool wants_copy(int64_t step) const {
    const bool may_miss_one = (config_.run.keep_best || bad_steps_.rewinds()) && checkpoints_.is_under_way();
    return memory_ && memory_->is_due(step) && !may_miss_one;
  }
  // Returns whether there is one.
  bool copy_in_memory(int64_t step) {
    if (!memory_) return false;
    const std::string problem = memory_->make(step, [&] {
      TrainState state = state_after(step);
      state.step = step;
      state.extra = held_out_.added_to(state.extra);
      return state;
    });
    if (!problem.empty()) note("warning: " + problem);
    return problem.empty();
  }
  // After all is saved: a worker that does not answer costs time, not the run.
  void let_workers_go(ArrivalDriver::Why why) {
    arrivals()->finish(why);
    report_lost_workers();
  }
  void report_lost_workers() {
    if (!arrivals()) return;
    for (const std::string& line : arrivals()->take_notes()) {
      if (leads()) observer_.lost_rank(line);
    }
  }
  void note(const std::string& text) {
    if (leads()) observer_.note(text);
  }
  void compare_replicas(int64_t step) {
    const Trainer::Meeting meeting(trainer_);
    replicas_.compare(step);
  }
  // Ranks at their own pace tell each other where one is asked to stop, and end after different steps.
  // Why any has stopped before its last; then all have the number of steps that rank 0 has made.
  StopReason mixing_ends(int64_t steps, bool last, StopReason reason) {
    if (!last && reason == StopReason::kNone && !arrivals()->is_asked_to_stop()) return StopReason::kNone;
    arrivals()->finish(last ? ArrivalDriver::Why::kThrough : ArrivalDriver::Why::kStopped);
    const StopReason own = last ? StopReason::kNone : std::max(reason, StopReason::kTimeIsUp);
    std::array<int64_t, 2> all = {static_cast<int64_t>(own), leads() ? steps : 0};
    agree(context_.ranks.communicator, kDataAxis, std::span(all), Communicator::Reduction::kMax);
    ended_with_ = all[1];
    return static_cast<StopReason>(all[0]);
  }
  // What several servers, or ranks at their own pace, have taken, for a replay.
  void log_arrivals() {
    if (!arrivals()) return;
    const ArrivalOrder own = arrivals()->take_order();
    if (alike_.plan.mesh.ranks() == 1) return;  // the only one's is in its log already
    const auto all = gathered_arrivals(own, *context_.ranks.communicator, serves() ? kServerAxis : kDataAxis);
    for (size_t rank = 0; leads() && rank < all.size(); ++rank) {
      for (const auto& [step, arrivals] : all[rank]) {
        if (rank > 0 || step > logged_) metrics_->write(RankArrivals{step, static_cast<int>(rank), arrivals});
      }
    }
  }
  LoaderOptions loader_options() const {
    LoaderOptions options{.batch = config_.train.batch,
                          .seed = static_cast<uint64_t>(config_.train.seed),
                          .parts = serves() ? std::vector<Part>{{0, 1}} : trainer_.own_rows(),
                          .prefetch = 2 + static_cast<int>(trainer_.steps_ahead())};
    add_own_samples(config_, data_, context_.ranks, options);
    return options;
  }
  int64_t samples_seen() const {
    const DataPosition position = loader_.position();
    return position.epoch * data_.train->size() + position.index;
  }
  // That this rank would send in a step without the plan's exchange; 0 where it has none.
  double dense_bytes() const {
    RankOptions dense = context_.ranks;
    if (dense.plan.agreement.is_dense() || half_ != StepHalf::kBoth) return 0;
    dense.plan.agreement = {};
    const Program program = step_program(model_, config_.train, config_.optim, step_shape(), *device_, dense);
    return bytes_sent_in_step(program);
  }
  std::string skip_note(int64_t step, const StepResult& done) const {
    if (done.bad == StepResult::Bad::kLoss)
      return fmt::format("step {}: the loss is {}; skipped", step, done.loss);
    if (done.bad == StepResult::Bad::kSpike)
      return fmt::format("step {}: the loss, {:.6g}, is a spike, above {:.6g}; skipped", step, done.loss,
                         trainer_.loss_limit);
    return fmt::format("step {}: the gradient is not finite; skipped{}", step,
                       precision_of(config_.train) == DType::f16
                           ? fmt::format(", loss scale now {}", trainer_.loss_scale)
                           : "");
  }
  // Those that the step needs; or the next one, where it is made already.
  std::span<Batch* const> batches_ahead() {
    ahead_.clear();
    const int needed = static_cast<int>(trainer_.steps_ahead());
    if (needed == 0) ahead_.push_back(loader_.peek());
    for (int i = 1; i <= needed; ++i) ahead_.push_back(&loader_.ahead(i));
    return ahead_;
  }
  bool language() const { return data_.vocab > 0; }
  static bool due(int64_t step, int64_t every) { return every > 0 && step % every == 0; }

  // Starting values, or those of the newest checkpoint; returns the number of steps that are done. Nothing is
  // written before it is clear that the run can continue.
  int64_t start() {
    const std::optional<LoadedCheckpoint> found = newest_state();
    if (found) {
      resume_from(*found);
    } else if (config_.run.resume == "always") {
      throw_error("run.resume is 'always', but {} holds no checkpoint", checkpoints_.path());
    } else {
      begin_anew();
    }
    if (config_.run.resume == "never" && leads()) {
      if (const std::string earlier = set_aside(folder_); !earlier.empty())
        note(fmt::format("run.resume is never: what was in {} is now in {}", folder_, earlier));
    }
    if (leads()) {
      checkpoints_.clean_up();
      write_run_description(folder_, config_, context_.ranks.plan);
      write_data_description(folder_, {data_.classes, data_.mean, data_.deviation, data_.input});
    }
    return found ? found->state.step : 0;
  }

  std::optional<LoadedCheckpoint> newest_state() const {
    if (config_.run.resume == "never") return std::nullopt;
    const std::vector<int64_t> on_disk = checkpoints_.steps();
    if (memory_) {
      if (auto copy = memory_->load_after(on_disk.empty() ? 0 : on_disk.back())) return copy;
    }
    return checkpoints_.load_latest();
  }

  void resume_from(const LoadedCheckpoint& found) {
    const ResumeChanges changes = changes_since(found.state, facts_);
    for (const std::string& message : found.messages) note(message);
    for (const std::string& change : changes.told) note(fmt::format("since {}: {}", found.path, change));
    if (!changes.refused.empty()) {
      const std::string text = join(changes.refused, "; ");
      if (config_.run.resume != "force") {
        throw_error(
            "cannot resume from {}: {}. Give the run what it began with, choose another run.dir, or set "
            "run.resume=never to start over; run.resume=force resumes regardless",
            found.path, text);
      }
      note(fmt::format("since {}, resumed by force: {}", found.path, text));
    }
    bad_steps_.restore(found.state.extra, found.state.step, found.path);
    take_states(found);
    loader_.seek(found.state.data);
    saving_.resumed_from(found.path);
    note(fmt::format("resumes from {} (step {})", found.path, found.state.step));
  }

  // All that the checkpoint has but the position in the data.
  void take_states(const LoadedCheckpoint& found) {
    if (const std::string lost = restore(trainer_, found, [&] { read_starting_weights(); }); !lost.empty())
      note(lost);
    trainer_.skipped_in_a_row = bad_steps_.skipped_in_a_row;
    held_out_.restore(found.state.extra, found.path);
    const std::vector<int64_t> there = checkpoints_.steps();
    if (held_out_.best() && std::ranges::find(there, held_out_.best()->step) == there.end())
      held_out_.forget_best();
  }

  void begin_anew() {
    trainer_.initialise(static_cast<uint64_t>(config_.train.seed));
    start_from_weights();
  }
  // train.init_from, over the starting values.
  void start_from_weights() {
    if (config_.train.init_from.empty()) return;
    const std::string source = read_starting_weights();
    trainer_.begin_from_weights();
    note("weights  from " + source);
  }
  std::string read_starting_weights() {
    return read_weights(config_.train.init_from, model_, starting_parts(trainer_), checkpoint_peers(alike_),
                        config_.train.init_fresh);
  }

  double flops_per_step() const { return busy_share() * model_flops(model_, config_.train, step_shape()); }
  // Of the replicas, those that have a client to train, on the average.
  double busy_share() const {
    const Plan& plan = context_.ranks.plan;
    return Clients(plan.agreement, replicas_of(plan.mesh)).busy_share();
  }

  // Returns whether the weights are the best so far, and should be saved.
  bool validate_now(int64_t step) {
    if (!data_.validation) return false;
    LoaderOptions options = evaluation(config_.train.batch / config_.train.accumulate);
    options.parts = trainer_.own_evaluation_rows();
    Loader loader(data_.validation, options);
    const Trainer::Meeting meeting(trainer_);
    Evaluation total;
    // The program evaluates one microbatch at a time; how a batch is cut must not change what is looked at.
    const int64_t microbatches = config_.train.eval_batches * config_.train.accumulate;
    for (int64_t i = 0; i < microbatches; ++i) {
      Batch& batch = loader.next();
      trainer_.evaluate(batch, total);
      if (batch.ends_epoch) break;
    }
    const double accuracy = total.count > 0 ? total.correct / total.count : 0;
    if (leads()) {
      const ValidationMetrics line{step, total.loss, accuracy, static_cast<int64_t>(total.count),
                                   wall_seconds()};
      metrics_->write(line);
      observer_.validated(line);
    }
    return held_out_.add(step, total.loss);
  }

  CheckpointPeers savers() const {
    CheckpointPeers peers = checkpoint_peers(alike_);
    peers.here = context_.ranks_here;
    return peers;
  }
  // Ranks that go by arrivals do not meet after every step, so none can say how far it is.
  Saving::Mode saving_mode() const {
    const bool meet = !goes_by_arrivals(context_.ranks.plan.agreement, context_.ranks.rank);
    if (config_.run.checkpoint_every == RunOptions::kAutomaticInterval &&
        (context_.ranks.plan.agreement.servers() || !context_.ranks.plan.agreement.is_in_step()))
      throw_error(
          "run.checkpoint_every is auto, but under the exchange {} ranks go at their own pace and can not agree "
          "on an interval; give a number of steps",
          context_.ranks.plan.agreement.method());
    return config_.run.save_in_background && meet ? Saving::Mode::kInBackground
                                                  : Saving::Mode::kTrainingWaits;
  }
  Saving::Events saving_events() {
    return {.state = [this](int64_t step) { return state_after(step); },
            .saved =
                [this](const std::string& path) {
                  if (!leads()) return;
                  observer_.saved(path);
                  may_sample_ = true;
                },
            .failed =
                [this](const NotSaved& error, int64_t next) {
                  note(fmt::format("warning: {}. Tried again after step {}", error.what(), next));
                  if (!leads() && error.failed() == NotSaved::Where::kHere) observer_.warn_here(error.what());
                },
            .interval = [this](const std::string& line) { note(line); }};
  }
  TrainState state_after(int64_t step) {
    log_arrivals();
    compare_replicas(step);  // or it would be mixed from what differs
    TrainState state;
    state.seed = static_cast<uint64_t>(config_.train.seed);
    state.data = loader_.position();
    for (const Fact& fact : facts_) state.made_with[fact.name] = fact.value;
    bad_steps_.skipped_in_a_row = trainer_.skipped_in_a_row;
    state.extra = bad_steps_.added_to(state.extra);
    return state;
  }

  // From a checkpoint that was written since the last sample.
  void sample_if_due() {
    const int64_t every = config_.run.sample_every;
    if (every == 0 || !may_sample_ || newest_saved() < sampled_ + every) return;
    try {
      show_sample();
    } catch (const Error& error) {
      note(fmt::format("warning: no sample after step {}: {}", newest_saved(), error.what()));
    }
    sampled_ = newest_saved();
    may_sample_ = false;
  }
  // The step of the newest checkpoint; 0: there is none.
  int64_t newest_saved() const {
    const std::string name = std::filesystem::path(saving_.newest()).filename().string();
    return parse_checkpoint_name(name).value_or(0);
  }
  void show_sample() {
    const ModelRecord& record = model_.record;
    const bool writes =
        record.input == InputKind::kTokens && record.targets == Targets::kNext && data_.tokenizer;
    if (!writes || config_.run.sample_tokens == 0 || !leads() || saving_.newest().empty()) return;
    Sampler sampler(model_, *device_);
    LoadedCheckpoint saved = open_checkpoint(saving_.newest());  // this rank alone may not have all weights
    add_starting_weights(saved.model, config_, model_);
    if (config_.train.ema > 0) take_averages(saved);
    sampler.load(saved.model);
    SampleOptions options;
    options.tokens = config_.run.sample_tokens;
    std::vector<int32_t> drawn;
    sampler.generate(data_.tokenizer->encode("\n"), options, [&](int32_t token) { drawn.push_back(token); });
    observer_.sampled(newest_saved(), data_.tokenizer->decode(drawn));
  }

  Config config_;
  RunContext context_;
  RunObserver& observer_;
  OpenedData data_;
  Model model_;
  Facts facts_;
  HeldOutRecord held_out_;
  BadSteps bad_steps_;
  std::unique_ptr<Device> device_;
  const StepHalf half_;                   // that this rank makes
  std::optional<StepPrograms> programs_;  // until the first step
  RankOptions alike_;
  Trainer trainer_;
  Loader loader_;
  std::vector<Batch*> ahead_;
  ReplicaCheck replicas_;
  RunFolder made_folder_;
  const std::string folder_;
  Checkpoints checkpoints_;
  Saving saving_;
  std::optional<MemoryCopies> memory_;
  StopAgreement stop_;
  int64_t logged_ = 0,
          ended_with_ = 0;  // steps: of arrivals; of rank 0, when ranks at their own pace have ended
  RunResult result_;        // so far
  std::optional<RankLog> rank_log_;
  std::optional<StepRecorder> recorder_;
  // Of rank 0 alone.
  bool may_sample_ = false;  // a checkpoint was written since the last sample
  int64_t sampled_ = 0;      // the step of that
  double dense_bytes_ = 0;   // that it would send in a step without the plan's exchange; 0: it has none
  std::optional<RunLock> lock_;
  std::optional<MetricsFile> metrics_;
  std::optional<RankSteps> steps_;  // goes first
};

}  // namespace

RunResult run_training(const ResolvedConfig& config, const ModelRecord& model, const OpenedData& data,
                       const RunContext& context, RunObserver& observer) {
  if (context.ranks.rank != 0) return Run(config, model, data, context, observer).go();
  std::optional<TensorBoardLog> tensorboard;
  if (config.config.run.tensorboard) tensorboard.emplace(observer);
  RunRecord record(tensorboard ? *tensorboard : observer, config.config.run.dir);
  try {
    return Run(config, model, data, context, record).go();
  } catch (const std::exception& error) {
    record.failed(error);
    throw;
  }
}

}  // namespace trireme
