// Feeds microbatches to the program and turns sums into means.
#include "trireme/train/trainer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "trireme/base/error.h"
#include "trireme/exchange/method.h"
#include "trireme/exchange/served.h"
#include "trireme/ir/trained.h"
#include "trireme/optim/update.h"
#include "trireme/plan/agreement.h"
#include "trireme/plan/clients.h"
#include "trireme/train/bad_numbers.h"
#include "trireme/train/state_reach.h"
#include "trireme/train/step_programs.h"

namespace trireme {
namespace {

// Loss scales of f16, for a mean over targets. The loss is a sum here, so that its gradients are larger by
// the number of targets and the scales smaller.
constexpr double kFirstMeanScale = 65536, kLargestMeanScale = 65536 * 256, kSmallestMeanScale = 1;
constexpr int64_t kGoodSteps = 1000;  // after which the loss scale is doubled

void set_scalar(Executor& executor, int segment, std::string_view name, double value) {
  const float narrow = static_cast<float>(value);
  executor.set_input(segment, name, &narrow, sizeof narrow);
}

// The targets of one microbatch, up to the next power of two, so that dividing a scale by it is exact.
double targets_of(const StepShape& shape) {
  const bool tokens = shape.sample.rank() == 1 || shape.sample.rank() == 2;  // the targets come last
  return std::exp2(
      std::ceil(std::log2(static_cast<double>(tokens ? shape.rows * shape.sample.back() : shape.rows))));
}

StepResult::Over over_of(float told) {
  return told == kGoesOn      ? StepResult::Over::kNo
         : told == kIsStopped ? StepResult::Over::kStopped
                              : StepResult::Over::kThrough;
}

// Ranks that could not hear of each other would wait, or train models of their own.
const RankOptions& with_communicator(const RankOptions& ranks) {
  if (ranks.plan.mesh.ranks() > 1 && !ranks.communicator)
    throw_error(
        "the plan '{}' has {} ranks, but this one was given no communicator to reach the others; make a "
        "MeshCommunicator and give it with the plan (RankOptions)",
        to_string(ranks.plan.mesh), ranks.plan.mesh.ranks());
  return ranks;
}

// Whether it has no client to train in this step.
bool is_idle(const RankOptions& ranks, int64_t step) {
  const Plan& plan = ranks.plan;
  if (plan.agreement.way() != ExchangeKind::Of::kWeightedMeans) return false;
  return !Clients(plan.agreement, replicas_of(plan.mesh)).trained(step, replica_of(plan.mesh, ranks.rank));
}

}  // namespace

Program step_program(const Model& model, const TrainOptions& train, const OptimOptions& optim,
                     const StepShape& shape, const Device& device, const RankOptions& ranks) {
  // Kernels that a GPU lacks are done without, whatever the settings say. They may speak of one that is not here.
  TrainOptions here = train;
  if (device.name() != "cpu") here.device = device.name();
  return StepPrograms(model, here, optim, shape, ranks.plan).rank(ranks.rank, &device);
}

Trainer::Trainer(Program program, const TrainOptions& train, const StepShape& shape, Device& device,
                 const RankOptions& ranks)
    : train_(train),
      shape_(shape),
      ranks_(with_communicator(ranks)),
      half_(precision_of(train) == DType::f16),
      executor_(std::move(program), device, hashed_communicator(),
                ranks.plan.offload ? ranks.plan.offload->folder : ""),
      runner_(executor_, ranks.trace),
      batch_check_(executor_.program()),
      step_list_(executor_.program().list(When::step())),
      evaluation_list_(executor_.program().list(When::evaluate())),
      fill_list_(executor_.program().find_list(When::fill())) {
  // run_training() gives the ranks of a server plans of their own.
  if (ranks.plan.agreement.servers())
    throw_error(
        "the plan has the exchange {}, whose server and workers take turns that a Trainer alone does not "
        "make; train with run_training(), or use another exchange",
        ranks.plan.agreement.method());
  if (this->program().sums == Schedule::Sums::kInPairs && ranks.plan.mesh.ranks() > 1 &&
      !ranks.communicator->adds_in_pairs())
    throw_error(
        "train.shards adds up in pairs, and this communicator does not; make it with "
        "axis_algorithms(plan, train), or use train.shards=0");
  begin_loss_scale();
  if (train.numbers_every > 0) health_.emplace(executor_, precision_of(train));
  if (train.recheck_every > 0)
    gradient_check_.emplace(train.recheck_every, executor_, traffic_ ? &*traffic_ : nullptr);
}

Communicator* Trainer::hashed_communicator() {
  if (train_.recheck_every == 0 || !ranks_.communicator) return ranks_.communicator;
  return &traffic_.emplace(*ranks_.communicator);
}

StepResult Trainer::step(Batch& batch, int64_t step, double rate, std::span<Batch* const> ahead) {
  fill(batch, step, ahead);
  std::string corrected;
  if (gradient_check_)  // which needs this batch again, so nothing of the next one comes in its place
    corrected =
        gradient_check_->make(step, [&] { make_gradients(runner_.gradient_turns(), 0, batch, step); });
  else
    make_gradients(runner_.gradient_turns(), 0, batch, step, ahead);
  const bool counts = health_ && (step + 1) % train_.numbers_every == 0;
  if (counts) health_->see_gradients();
  StepResult result = update(step, rate);
  if (counts && !result.skipped) result.numbers = health_->see_update();
  result.corrected = std::move(corrected);
  return result;
}

void Trainer::begin_loss_scale() {
  loss_scale = half_ ? kFirstMeanScale / targets_of(shape_) : 1;
  scale_age = 0;
}

void Trainer::run_list(const ActionList& list) {
  runner_.run(
      runner_.turns(list), [](const Runner::Turn&) {}, [](const Runner::Turn&) {});
}

void Trainer::begin_sums_again(int64_t steps) {
  // When a list that is run every so many steps was last, and which of two in the same step came later.
  const auto last_run = [&](const ActionList& list) {
    return std::pair(list.when.last_run(steps), &list - program().lists.data());
  };
  const auto list_with = [&](const Action& action) {
    return std::ranges::find_if(program().lists, [&](const ActionList& list) {
      return std::ranges::find(list.actions, action) != list.actions.end();
    });
  };
  for (const ActionList& list : program().lists) {
    for (const Action& action : list.actions) {
      if (action.kind != Action::Kind::kReduce) continue;
      const auto begun = last_run(list),
                 awaited = last_run(*list_with(Action::await(action.what, action.slot)));
      if (begun.first == 0 || begun <= awaited) continue;
      run_list(list);
      break;  // all of its sums are begun
    }
  }
}

bool Trainer::agrees_after(int64_t steps) const {
  bool alone = false;
  for (const ActionList& list : program().lists) {
    if (list.when.is_due_after(steps)) return true;
    alone |= list.when.kind == When::Kind::kEvery;
  }
  return !alone;
}

std::vector<Part> Trainer::rows_of(const ActionList& list) const {
  // A stage in the middle of a pipeline wants none, but all ranks read alike.
  std::set<int64_t> microbatches;
  for (const Runner::Turn& turn : runner_.turns(list)) {
    if (!turn.runs() || !computes_rows(turn.segment)) continue;
    microbatches.insert(turn.action->microbatch % list.microbatches);
  }
  std::vector<Part> parts;
  for (int64_t microbatch : microbatches)
    parts.push_back({microbatch * list.rows + list.own.begin, list.own.size});
  return parts;
}

// Whether a segment is about the rows of a microbatch: it takes them, or what a stage before it made of them.
bool Trainer::computes_rows(int segment) const {
  const Segment& what = program().segments[segment];
  return what.takes(Role::kBatch) || what.takes(Role::kStash);
}

std::vector<Part> Trainer::own_rows() const {
  return rows_of(step_list_);
}

std::vector<Part> Trainer::own_evaluation_rows() const {
  return rows_of(evaluation_list_);
}

// The rows of an input that a microbatch takes of a batch.
std::span<const std::byte> Trainer::rows_for(int segment, const Value& input, const ActionList& list,
                                             int64_t microbatch, Batch& batch) const {
  const int64_t rows = list.own.size, place = batch.place_of(microbatch * list.rows + list.own.begin, rows);
  const HostTensor& tensor = batch.at(input.name);
  if (tensor.shape.rank() == 0 || tensor.shape[0] < place + rows)
    throw_error("the batch's '{}' is {}, with fewer rows than its other tensors", input.name,
                to_string(tensor.shape));
  const size_t row_bytes =
      static_cast<size_t>(tensor.shape.elements(1, tensor.shape.rank())) * size_of(tensor.dtype);
  const std::span<const std::byte> found(tensor.bytes.data() + place * row_bytes,
                                         static_cast<size_t>(rows) * row_bytes);
  batch_check_.check(segment, input, tensor, found);
  return found;
}

void Trainer::load_rows(int segment, const ActionList& list, int64_t microbatch, Batch& batch) {
  for (const Value& input : program().segments[segment].graph.values) {
    if (input.role != Role::kBatch) continue;
    if (ahead_.batch == &batch && std::ranges::find(ahead_.inputs, input.name) != ahead_.inputs.end())
      continue;
    const std::span<const std::byte> rows = rows_for(segment, input, list, microbatch, batch);
    executor_.set_input(segment, input.name, rows.data(), rows.size());
  }
}

// Where a step is one microbatch: those of several take turns in the same place.
void Trainer::load_ahead(int segment, Batch& next) {
  if (step_list_.microbatches != 1) return;
  ahead_.batch = &next;
  for (const Value& input : program().segments[segment].graph.values) {
    if (input.role != Role::kBatch) continue;
    const std::span<const std::byte> rows = rows_for(segment, input, step_list_, 0, next);
    if (executor_.set_next_input(segment, input.name, rows.data(), rows.size()))
      ahead_.inputs.push_back(input.name);
  }
}

void Trainer::forward_backward(Batch& batch, int64_t step) {
  if (fill_list_)
    throw_error(
        "an asynchronous pipeline computes the gradients of a step beside those of others; run whole steps "
        "(Trainer::step), or use a synchronous schedule");
  make_gradients(runner_.gradient_turns(), 0, batch, step);
}

void Trainer::forward_backward(Batch& microbatch, int64_t step, int64_t number) {
  const std::span<const Runner::Turn> all = runner_.gradient_turns();
  const auto is_of = [&](const Runner::Turn& turn) { return turn.action->microbatch == number; };
  if (!std::ranges::all_of(all, [&](const Runner::Turn& turn) {
        return turn.action->is_of_file() ||
               (turn.runs() && program().segments[turn.segment].takes(Role::kBatch));
      })) {
    throw_error(
        "microbatch {} was given alone, but this step computes its microbatches in an order of its own "
        "(train.shards, or a pipeline); give the whole batch, or use train.accumulate without them",
        number);
  }
  const auto begin = std::ranges::find_if(all, is_of);
  if (begin == all.end())
    throw_error("microbatch {} of a step was given, but it has {} of them (train.accumulate)", number,
                step_list_.microbatches);
  make_gradients({begin, std::find_if_not(begin, all.end(), is_of)}, number, microbatch, step);
}

int64_t Trainer::steps_ahead() const {
  int64_t most = 0;
  for (const Action& action : step_list_.actions) {
    if (action.kind == Action::Kind::kRun) most = std::max(most, action.microbatch / step_list_.microbatches);
  }
  return most;
}

void Trainer::fill(Batch& batch, int64_t step, std::span<Batch* const> ahead) {
  if (filled_for_ != step && fill_list_) make_gradients(runner_.turns(*fill_list_), 0, batch, step, ahead);
  filled_for_ = step + 1;
}

// The batch begins with microbatch `first`.
void Trainer::make_gradients(std::span<const Runner::Turn> turns, int64_t first, Batch& batch, int64_t step,
                             std::span<Batch* const> ahead, int64_t slot) {
  counted_targets_.reset();
  if (is_idle(ranks_, step)) return;
  const auto batch_after = [&](int64_t steps) -> Batch& {
    if (steps == 0) return batch;
    if (steps > std::ssize(ahead) || !ahead[steps - 1])
      throw_error(
          "step {} of an asynchronous pipeline begins with the batch of step {}, which was not given; see "
          "Trainer::step",
          step + 1, step + steps + 1);
    return *ahead[steps - 1];
  };
  Batch* const next = ahead.empty() ? nullptr : ahead[0];
  const auto before = [&](const Runner::Turn& turn) {
    const Segment& segment = program().segments[turn.segment];
    const int64_t microbatch = turn.action->microbatch - first;
    if (segment.takes(Role::kBatch))
      load_rows(turn.segment, step_list_, microbatch % step_list_.microbatches,
                batch_after(microbatch / step_list_.microbatches));
    ahead_ = {};
    if (segment.graph.has_input("loss_scale")) set_scalar(executor_, turn.segment, "loss_scale", loss_scale);
    if (segment.takes(Role::kRng)) {
      const std::array<int64_t, 2> rng{train_.seed, step * step_list_.microbatches + turn.action->microbatch};
      executor_.set_input(turn.segment, "rng", rng.data(), sizeof rng);
    }
  };
  const auto after = [&](const Runner::Turn& turn) {
    // Several ranks find out together, in the update: the loss of one is not known to the others yet.
    const Segment& segment = program().segments[turn.segment];
    if (ranks_.communicator || !segment.graph.has_output("loss")) return;
    if (next && !segment.takes(Role::kStash)) load_ahead(turn.segment, *next);
    const float loss = executor_.scalar_output(turn.segment, "loss");
    if (std::isfinite(loss) || train_.on_nan == "skip") return;
    ahead_ = {};
    load_rows(turn.segment, step_list_, turn.action->microbatch - first, batch);  // to be looked at again
    explain_bad_loss({&turn, 1}, loss, step);
  };
  runner_.run(turns, before, after, first_slot(step) + slot);
}

StepResult Trainer::step_alone(Batch& batch, int64_t step, double rate, int64_t slot,
                               const std::function<void()>& between) {
  make_gradients(runner_.gradient_turns(), 0, batch, step, {}, slot);
  if (between) between();
  return update_alone(step, rate, slot);
}

StepResult Trainer::update(int64_t step, double rate) {
  StepResult result = update_alone(step, rate, /*slot=*/0);
  for (const ActionList& list : program().lists) {
    if (list.when.is_due_after(step + 1)) run_list(list);
  }
  for (size_t s = program().segments.size(); s-- > 0;) {  // of several servers, the first one says it
    if (program().segments[s].graph.has_output(kOver))
      result.over = over_of(executor_.scalar_output(static_cast<int>(s), kOver));
  }
  return result;
}

StepResult Trainer::update_alone(int64_t step, double rate, int64_t slot) {
  if (!std::isfinite(rate))
    throw_error("the learning rate of step {} is {}; a finite number expected", step + 1, rate);
  StepResult result;
  if (is_idle(ranks_, step)) return result;
  float count = 0;
  const auto before = [&](const Runner::Turn& turn) {
    if (!program().segments[turn.segment].graph.has_input("lr")) return;
    set_scalar(executor_, turn.segment, "lr", rate);
    set_scalar(executor_, turn.segment, "step", static_cast<double>(step + 1));
    set_scalar(executor_, turn.segment, "loss_scale", loss_scale);
    if (program().segments[turn.segment].graph.has_input("loss_limit"))
      set_scalar(executor_, turn.segment, "loss_limit", loss_limit);
  };
  const auto after = [&](const Runner::Turn& turn) {
    if (program().segments[turn.segment].graph.outputs.empty()) return;  // the last part has them
    const auto read = [&](std::string_view name) { return executor_.scalar_output(turn.segment, name); };
    result.norm = read("norm");
    count = read("count");
    result.loss = read("loss") / std::max(1.0f, count);
    result.skipped = !std::isfinite(read("scale"));
    for (const std::string& layer : layers_with_experts(program().segments[turn.segment].graph)) {
      const std::vector<std::string> names = expert_use_outputs(layer);
      result.experts.push_back(
          {layer, read(names[0]), read(names[1]), read(names[2]), read(names[3]) / std::max(1.0f, count)});
    }
    if (program().segments[turn.segment].graph.has_output(kResidualSquares))
      result.residual_norm = std::sqrt(static_cast<double>(read(kResidualSquares)));
    if (train_.noise_scale) {
      const double norm = result.norm * count;
      result.squares = {read("squares") / (loss_scale * loss_scale), read("count_squares"), norm * norm,
                        count};
    }
  };
  runner_.run(runner_.update_turns(step + 1), before, after, first_slot(step) + slot);
  result.bad = badness_of(result, count);
  follow_bad_steps(result, step);
  return result;
}

StepResult::Bad Trainer::badness_of(const StepResult& done, double count) const {
  // Such a step was skipped: its gradient is not finite either, or the update asked for the loss.
  if (!std::isfinite(done.loss)) return StepResult::Bad::kLoss;
  if (!done.skipped || count == 0) return StepResult::Bad::kNo;
  return done.loss > loss_limit ? StepResult::Bad::kSpike : StepResult::Bad::kGradient;
}

// Skips what may be skipped, and throws where that has an end.
void Trainer::follow_bad_steps(const StepResult& done, int64_t step) {
  using Bad = StepResult::Bad;
  if (done.bad == Bad::kLoss && train_.on_nan != "skip")
    explain_bad_loss(runner_.gradient_turns(), done.loss, step);
  if (done.bad == Bad::kSpike && train_.on_spike != "skip") throw_spike(done.loss, step);
  const bool overflows = half_ && done.bad == Bad::kGradient;  // has an end of its own
  if (half_ && (done.bad == Bad::kNo || overflows)) adapt_loss_scale(overflows, step);
  skipped_in_a_row = done.bad == Bad::kNo || overflows ? 0 : skipped_in_a_row + 1;
  if (skipped_in_a_row <= train_.max_skipped) return;
  if (done.bad == Bad::kLoss) explain_bad_loss(runner_.gradient_turns(), done.loss, step);
  if (done.bad == Bad::kSpike) throw_spike(done.loss, step);
  throw BadNumbers(
      BadNumbers::Kind::kNotFinite,
      fmt::format(
          "the gradient is not finite at step {}, though the loss, {}, is; {}. Such steps in a row: {}, of "
          "which train.max_skipped = {} may be skipped. Weights are as they were. A lower optim.lr or more "
          "lr_schedule.warmup_steps usually help, from a checkpoint before the trouble",
          step + 1, done.loss, first_bad_gradient(), skipped_in_a_row, train_.max_skipped));
}

void Trainer::throw_spike(double loss, int64_t step) const {
  throw BadNumbers(
      BadNumbers::Kind::kSpike,
      fmt::format(
          "the loss is {:.6g} at step {}, a spike: it is above {:.6g}, which is {:g} standard deviations above "
          "the mean of the last {} good steps{}. Weights are as they were before this step. A lower optim.lr or "
          "train.clip_norm usually help; if the loss is as it should be, raise train.spike_deviations",
          loss, step + 1, loss_limit, train_.spike_deviations, train_.spike_window,
          skipped_in_a_row > train_.max_skipped
              ? fmt::format("; train.max_skipped = {} steps in a row were skipped", train_.max_skipped)
              : ""));
}

void Trainer::adapt_loss_scale(bool overflow, int64_t step) {
  const double targets = targets_of(shape_);
  scale_age = overflow ? 0 : scale_age + 1;
  if (overflow) {
    // Nothing would ever change again.
    if (loss_scale <= kSmallestMeanScale / targets) {
      throw BadNumbers(
          BadNumbers::Kind::kNotFinite,
          fmt::format(
              "the gradient overflows f16 at step {} even with the smallest loss scale, {}; {}. Weights are "
              "as they were. A lower optim.lr or train.precision=bf16 usually help",
              step + 1, loss_scale, first_bad_gradient()));
    }
    loss_scale = std::max(kSmallestMeanScale / targets, loss_scale / 2);
  }
  if (scale_age == kGoodSteps) {
    loss_scale = std::min(kLargestMeanScale / targets, loss_scale * 2);
    scale_age = 0;
  }
}

// In the order of the model, from the input on.
std::string Trainer::first_bad_gradient() {
  for (const State& slot : program().states) {
    if (slot.role != Role::kParameter || is_frozen(slot.role, slot.attrs)) continue;
    const std::string name = gradient_name(slot.name);
    const std::vector<float> values = read_numbers(executor_, *program().find_state(name));
    const auto bad = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
    if (bad != values.end())
      return fmt::format("the first gradient that is not finite: {}, with {} at element {}", name, *bad,
                         bad - values.begin());
  }
  return "each gradient is finite, but the norm of all is too large for f32";
}

void Trainer::explain_bad_loss(std::span<const Runner::Turn> turns, double loss, int64_t step) {
  // A segment alone can be run again, but a stage of a pipeline needs the others for it. And ranks stop at
  // ops of their own, some before a collective and some behind it: after that they can only end.
  const Runner::Turn& turn = turns.front();
  const bool whole = turn.runs() && program().segments[turn.segment].takes(Role::kBatch) &&
                     !program().segments[turn.segment].takes(Role::kStash);
  const bool looks = whole && (!ranks_.communicator || train_.on_nan != "rewind");
  const std::string where = looks ? executor_.find_non_finite(turn.segment) : "";
  throw BadNumbers(
      BadNumbers::Kind::kNotFinite,
      fmt::format(
          "the loss is {} at step {}{}. Weights are as they were before this step. A lower optim.lr, more "
          "lr_schedule.warmup_steps or train.clip_norm usually help",
          loss, step + 1,
          !looks          ? ""
          : where.empty() ? "; no single op makes it"
                          : "; the first op that makes a non-finite number: " + where));
}

}  // namespace trireme
