// One model in training on one device: the programs of a step, the states, and the calls that advance them.
// Knows nothing of files, logs or time; loop.h does.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/checkpoint/safetensors.h"
#include "trireme/data/batch.h"
#include "trireme/kernels/communicator.h"
#include "trireme/optim/tallies.h"
#include "trireme/plan/plan.h"
#include "trireme/runtime/runner.h"
#include "trireme/train/batch_check.h"
#include "trireme/train/counted_targets.h"
#include "trireme/train/critical_batch.h"
#include "trireme/train/gradient_check.h"
#include "trireme/train/numeric_health.h"
#include "trireme/train/options.h"
#include "trireme/train/step.h"

namespace trireme {

struct StepResult {
  double loss = 0;       // mean over counted targets
  double norm = 0;       // of the gradient, before clipping
  bool skipped = false;  // for one of the reasons below, or no target counted; nothing changed
  enum class Bad {
    kNo,
    kGradient,
    kLoss,
    kSpike
  } bad = Bad::kNo;         // not finite; or above Trainer::loss_limit
  GradientSquares squares;  // with train.noise_scale
  // With train.recheck_every: what was wrong with gradients that were made again, and with which rank; "":
  // nothing.
  std::string corrected = {};
  // Of each layer with experts, `balance` as a mean over counted targets.
  std::vector<ExpertUse> experts = {};
  // Of this rank, after every train.numbers_every steps that were not skipped.
  std::optional<StepNumbers> numbers = {};
  std::optional<double> residual_norm =
      {};  // of what this rank's exchange has not sent yet, where it keeps that
  // Of a server's step: by how many updates the weights that gradients were of were behind; and of one at a
  // rank's own pace: by how many steps the weights that it took were.
  std::optional<double> staleness_mean = {}, staleness_max = {};
  // Of a worker's: the server needs no more of it, because the run is through or was stopped.
  enum class Over { kNo, kThrough, kStopped } over = Over::kNo;
};

struct Evaluation {
  double loss = 0;     // mean over counted targets
  double count = 0;    // counted targets
  double correct = 0;  // of those, how many had the largest logit
};

// Which rank of a plan this is, and how it talks to the others. The default: the only one.
struct RankOptions {
  Plan plan;
  int rank = 0;
  Communicator* communicator = nullptr;  // must be there when the plan has more than one rank
  Trace* trace = nullptr;                // where it is noted what is done when
};

// train.tf32, as a device takes it.
inline F32Products f32_products_of(const TrainOptions& train) {
  return train.tf32 ? F32Products::kTf32 : F32Products::kF32;
}

// What a rank of a plan runs for a step: the graphs of step.h, spread and placed in memory. `model` is a
// record with its settings, or the settings alone of a family in the table (models/model.h); vocab or classes
// must be set. Throws Error when the plan can not be: parts that do not divide, too few rows, …
Program step_program(const Model& model, const TrainOptions& train, const OptimOptions& optim,
                     const StepShape& shape, const Device& device, const RankOptions& ranks = {});

class Trainer {
 public:
  // Allocates everything that training will use. The plan and the schedule say which rows of a batch this
  // rank takes.
  Trainer(const Model& model, const TrainOptions& train, const OptimOptions& optim, const StepShape& shape,
          Device& device, const RankOptions& ranks = {})
      : Trainer(step_program(model, train, optim, shape, device, ranks), train, shape, device, ranks) {}
  // The program is step_program()'s, for callers that look at it first.
  Trainer(Program program, const TrainOptions& train, const StepShape& shape, Device& device,
          const RankOptions& ranks);

  // Fills parameters, buffers and optimizer states with their starting values, a function of (seed, name,
  // element) alone.
  void initialise(uint64_t seed);

  // One step on a batch of shape.rows * accumulate rows, of which this rank is given at least own_rows().
  // `step` counts from 0, `rate` is the learning rate. Throws BadNumbers that names the first op that made a
  // non-finite number when the loss is not finite, and one that names the first gradient when more than
  // train.max_skipped steps in a row had a gradient that is not finite (f16: when the loss scale cannot be
  // lowered). Either way all states are as before the step. With train.on_nan=skip it counts a loss that is
  // not finite as such a gradient, and with train.on_spike also one that is above loss_limit.
  // `ahead`: the batches that the next calls will be given, where they are known; what takes long to move
  // goes to the device while this step computes. An asynchronous pipeline begins with them in this step, and
  // needs steps_ahead() of them. It is filled by the first step, and by one that does not follow the last.
  StepResult step(Batch& batch, int64_t step, double rate, std::span<Batch* const> ahead = {});
  int64_t steps_ahead() const;
  // Its two halves, for callers that look at gradients in between: one leaves them in states, the other takes
  // them from there.
  void forward_backward(Batch& batch, int64_t step);
  // One of train.accumulate microbatches alone, of shape.rows rows, of which this rank is given at least
  // own_evaluation_rows(). In order: the first (0) replaces what was added up, the others add to it.
  void forward_backward(Batch& microbatch, int64_t step, int64_t number);
  StepResult update(int64_t step, double rate);
  // Both halves without the lists by which ranks agree, for callers that run those in an order of their own
  // (rank_steps.h). Messages that are taken or made lie in this slot. `between`: called between the two.
  StepResult step_alone(Batch& batch, int64_t step, double rate, int64_t slot,
                        const std::function<void()>& between = nullptr);

  // Where the plan lets ranks go on by themselves for some steps (plan/agreement.h), they have
  // different states in between; elsewhere these do nothing. In a Meeting all have the means, so that there
  // is one model to save, compare and evaluate; after it each has its own again. Collective.
  class Meeting {
   public:
    explicit Meeting(Trainer& trainer) : trainer_(trainer) {
      trainer.runner_.run(When::asked(When::What::kMeet));
    }
    ~Meeting() { trainer_.part_from_meeting(); }  // sends nothing
    Meeting(const Meeting&) = delete;
    Meeting& operator=(const Meeting&) = delete;

   private:
    Trainer& trainer_;
  };
  // After weights were set by somebody else; and after the states of a meeting were.
  void begin_from_weights() {
    filled_for_ = -1;
    runner_.run(When::asked(When::What::kBegin));
  }
  void part_from_meeting() { runner_.run(When::asked(When::What::kPart)); }
  // After the states of a run were set that has made so many steps: the sums that were under way then.
  void begin_sums_again(int64_t steps);
  // Whether ranks hear of each other after so many steps.
  bool agrees_after(int64_t steps) const;

  // Adds up over a batch of shape.rows rows, of which this rank is given at least own_evaluation_rows(); rows
  // with ignored targets do not count. `on_row`: of a model with logits, what it says of each row of `batch`
  // that counts; of language models a row is one token.
  using OnRow = std::function<void(int64_t row, std::span<const float> logits)>;
  void evaluate(Batch& batch, Evaluation& total, const OnRow& on_row = nullptr);

  // The rows of a whole batch that this rank computes, for its loader.
  std::vector<Part> own_rows() const;
  std::vector<Part> own_evaluation_rows() const;

  // Of the gradients that are there now. Collective in the first call after they were made; see
  // counted_targets.h.
  const CountedTargets& counted_targets() {
    if (!counted_targets_) counted_targets_.emplace(executor_);
    return *counted_targets_;
  }

  // f16: the factor on the loss, halved after an overflow and doubled after many good steps.
  double loss_scale = 1;
  int64_t scale_age = 0;
  // With train.on_spike: the mean loss above which a step is a spike. By default none is.
  static constexpr double kNoLossLimit = std::numeric_limits<float>::max();
  double loss_limit = kNoLossLimit;
  int64_t skipped_in_a_row = 0;  // steps with bad numbers

  int64_t parameter_count() const { return program().parameters; }
  const Program& program() const { return executor_.program(); }
  Executor& executor() { return executor_; }
  Runner& runner() { return runner_; }
  // The states, by their names in checkpoints: weights and buffers; moments and velocities. Of one rank: of a
  // 16-bit weight it is the master, and writing it writes the weight.
  std::vector<NamedTensor> model_tensors() {
    return tensors({Role::kParameter, Role::kMaster, Role::kBuffer});
  }
  std::vector<NamedTensor> optimizer_tensors() { return tensors({Role::kOptimizer}); }

 private:
  std::vector<NamedTensor> tensors(const std::vector<Role>& roles);
  Communicator* hashed_communicator();
  void run_list(const ActionList& list);
  StepResult update_alone(int64_t step, double rate, int64_t slot);
  std::vector<Part> rows_of(const ActionList& list) const;
  void fill(Batch& batch, int64_t step, std::span<Batch* const> ahead);
  void make_gradients(std::span<const Runner::Turn> turns, int64_t first, Batch& batch, int64_t step,
                      std::span<Batch* const> ahead = {}, int64_t slot = 0);
  int64_t first_slot(int64_t step) const { return fill_list_ ? step * step_list_.microbatches : 0; }
  std::span<const std::byte> rows_for(int segment, const Value& input, const ActionList& list,
                                      int64_t microbatch, Batch& batch) const;
  void load_rows(int segment, const ActionList& list, int64_t microbatch, Batch& batch);
  void load_ahead(int segment, Batch& next);
  double count_correct(int segment, int64_t microbatch, Batch& batch, const OnRow& on_row);
  void begin_loss_scale();
  void adapt_loss_scale(bool overflow, int64_t step);
  [[noreturn]] void explain_bad_loss(std::span<const Runner::Turn> turns, double loss, int64_t step);
  StepResult::Bad badness_of(const StepResult& done, double count) const;
  void follow_bad_steps(const StepResult& done, int64_t step);
  [[noreturn]] void throw_spike(double loss, int64_t step) const;
  bool computes_rows(int segment) const;
  std::string first_bad_gradient();

  TrainOptions train_;
  StepShape shape_;
  RankOptions ranks_;
  bool half_;                                  // f16, which needs loss scaling
  std::optional<HashedCommunicator> traffic_;  // with train.recheck_every, of several ranks
  Executor executor_;
  Runner runner_;
  BatchCheck batch_check_;
  std::optional<NumericHealth> health_;             // with train.numbers_every
  std::optional<GradientCheck> gradient_check_;     // with train.recheck_every
  const ActionList &step_list_, &evaluation_list_;  // of the program
  const ActionList* fill_list_;                     // null: the pipeline, if any, is empty between steps
  int64_t filled_for_ = -1;                         // the step that may come next
  std::vector<float> logits_;
  std::optional<CountedTargets> counted_targets_;
  // What the device has already of the batch that is to come.
  struct Ahead {
    const Batch* batch = nullptr;
    std::vector<std::string_view> inputs;
  } ahead_;
};

// Sets every state of the program to its starting value.
void initialise_states(Executor& executor, uint64_t seed);

}  // namespace trireme
