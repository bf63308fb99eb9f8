// See ranks.h.
#include "tests/exchange/ranks.h"

#include <gtest/gtest.h>

#include <mutex>

#include "trireme/base/rng.h"
#include "trireme/optim/update.h"
#include "trireme/plan/combinations.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme::testing {
namespace {

Floats values_of(Trainer& trainer, const State& state) {
  Floats values(state.type.shape.elements());
  trainer.executor().read_state(state.name, values.data(), state.type.bytes());
  return values;
}

void put(std::vector<Floats>& of_ranks, int ranks, int rank, Floats values) {
  of_ranks.resize(ranks);
  of_ranks[rank] = std::move(values);
}

class Rank {
 public:
  Rank(History& run, std::mutex& mutex, const Training& training, const Plan& plan, comm::Context& context)
      : run_(run),
        mutex_(mutex),
        training_(training),
        plan_(plan),
        context_(context),
        communicator_(plan.mesh, context, comm::Algorithm::ring),
        device_(make_cpu_device(1)),
        trainer_(training.model, training.train, training.optim, training.shape, *device_,
                 {plan, context.rank(), context.ranks() > 1 ? &communicator_ : nullptr}) {}

  void go() {
    trainer_.initialise(1);
    for (int64_t step = 0; step < training_.steps; ++step) {
      Batch batch = random_batch(training_, step);
      const uint64_t before = context_.transport().counters().bytes_sent;
      trainer_.loss_scale = training_.loss_scale;
      const StepResult result = asynchronous_ ? with_next(batch, step) : in_halves(batch, step);
      note(step, &StepRecord::weights_after, &StepRecord::kept_after);
      const std::lock_guard lock(mutex_);
      if (context_.rank() == 0) run_.steps[step].result = result;
      run_.steps[step].bytes_sent += static_cast<double>(context_.transport().counters().bytes_sent - before);
      run_.steps[step].bytes_promised +=
          trireme::bytes_sent(trainer_.program(), trainer_.program().step_list(step + 1));
    }
  }

 private:
  // An asynchronous pipeline begins with the batches of later steps.
  StepResult with_next(Batch& batch, int64_t step) {
    std::vector<Batch> next;
    for (int64_t ahead = 1; ahead <= trainer_.steps_ahead(); ++ahead)
      next.push_back(random_batch(training_, step + ahead));
    std::vector<Batch*> pointers;
    for (Batch& one : next) pointers.push_back(&one);
    return trainer_.step(batch, step, training_.rate, pointers);
  }

  StepResult in_halves(Batch& batch, int64_t step) {
    trainer_.forward_backward(batch, step);
    note(step, &StepRecord::weights_before, &StepRecord::kept_before);
    note_gradients(step);
    return trainer_.update(step, training_.rate);
  }

  void note(int64_t step, std::map<std::string, Floats> StepRecord::*weights,
            std::map<std::string, std::vector<Floats>> StepRecord::*kept) {
    const std::lock_guard lock(mutex_);
    for (const State& state : trainer_.program().states) {
      StepRecord& record = run_.steps[step];
      if (state.role == Role::kResidual)
        put((record.*kept)[state.name], context_.ranks(), context_.rank(), values_of(trainer_, state));
      if (state.role != Role::kParameter) continue;
      run_.shapes[state.name] = state.part.whole;
      const Floats values = values_of(trainer_, state);
      // Of a parameter in parts, each rank has its own.
      const bool whole = state.part.axes.empty();
      const std::string key = whole ? state.name : fmt::format("{} on rank {}", state.name, context_.rank());
      const auto [known, added] = (record.*weights).try_emplace(key, values);
      if (!added) {
        EXPECT_EQ(known->second, values) << state.name << " of replicas differ";
      }
    }
  }

  void note_gradients(int64_t step) {
    const int64_t rows = training_.shape.rows * training_.train.accumulate;
    const double targets =
        static_cast<double>(training_.shape.sample.rank() == 1 ? rows * training_.shape.sample[0] : rows);
    const std::lock_guard lock(mutex_);
    for (const State& state : trainer_.program().states) {
      if (state.role != Role::kGradient || !state.attrs.has("of")) continue;
      Floats values = values_of(trainer_, state);
      for (float& value : values)
        value = static_cast<float>(static_cast<double>(value) / (targets * training_.loss_scale));
      put(run_.steps[step].gradients[std::string(state.attrs.text("of"))], context_.ranks(), context_.rank(),
          std::move(values));
    }
  }

  History& run_;
  std::mutex& mutex_;
  const Training& training_;
  const Plan& plan_;
  const bool asynchronous_ = features_of(plan_).contains(Feature::kAsynchronous);
  comm::Context& context_;
  MeshCommunicator communicator_;
  std::unique_ptr<Device> device_;
  Trainer trainer_;
};

}  // namespace

Batch random_batch(const Training& training, int64_t step) {
  const int64_t rows = training.shape.rows * training.train.accumulate;
  Batch batch;
  batch.rows = rows;
  const RngKey key{17, static_cast<uint64_t>(step)};
  uint64_t element = 0;
  const auto add = [&](const char* name, DType dtype, Shape shape, int64_t below) {
    HostTensor& tensor = batch.tensors.emplace_back(name, HostTensor{}).second;
    tensor.reset(dtype, shape);
    if (dtype == DType::f32) {
      for (float& value : tensor.values<float>()) value = 2 * uniform(key, element++) - 1;
    } else {
      for (int32_t& value : tensor.values<int32_t>())
        value = static_cast<int32_t>(uniform(key, element++) * static_cast<float>(below));
    }
  };
  if (training.shape.sample.rank() == 1) {
    add("ids", DType::i32, {rows, training.shape.sample[0]}, training.model.vocab);
    add("targets", DType::i32, {rows, training.shape.sample[0]}, training.model.vocab);
  } else {
    add("images", DType::f32,
        {rows, training.shape.sample[0], training.shape.sample[1], training.shape.sample[2]}, 0);
    add("labels", DType::i32, {rows}, training.model.classes);
  }
  return batch;
}

Training small_mlp() {
  Training training;
  training.model.family = "mlp";
  training.model.layers = 2;
  training.model.hidden = 19;
  training.model.classes = 5;
  training.shape = {12, {1, 3, 3}};
  training.optim.kind = "sgd";
  training.optim.weight_decay = 0;
  training.train.clip_norm = 0;
  return training;
}

Training small_gpt() {
  Training training;
  training.model.layers = 2;
  training.model.heads = 4;
  training.model.hidden = 32;
  training.model.vocab = 32;
  training.model.seq = 8;
  training.shape = {8, {8}};
  training.optim.kind = "sgd";
  training.optim.weight_decay = 0;
  training.train.clip_norm = 0;
  return training;
}

Training small_resnet() {
  Training training = small_mlp();
  training.model = {};
  training.model.family = "resnet";
  training.model.layers = 8;
  training.model.classes = 5;
  training.shape = {12, {3, 5, 5}};
  return training;
}

Plan plan_of(const std::string& mesh, const std::string& exchange, const std::string& preset) {
  return parse_plan(
      fmt::format(R"({{"mesh": "{}", "preset": "{}", "exchange": {}}})", mesh, preset, exchange), "test");
}

History record_of(const Plan& plan, const Training& training) {
  History run;
  run.steps.resize(training.steps);
  std::mutex mutex;
  comm::run_rank_threads(
      plan.mesh.ranks(), [&](comm::Context& context) { Rank(run, mutex, training, plan, context).go(); },
      /*timeout_seconds=*/60);
  return run;
}

const std::map<std::string, Floats>& weights(const History& run) {
  return run.steps.back().weights_after;
}

}  // namespace trireme::testing
