// See local_ranks.h.
#include "tests/exchange/local_ranks.h"

#include <mutex>

#include "trireme/optim/update.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme::testing {
namespace {

// Of a batch in which each rank's rows have another number of targets that count. Which rank has fewer
// changes every two steps, so that counts of one round are not those of another.
Batch uneven_batch(const Training& training, int64_t step) {
  Batch batch = random_batch(training, step);
  for (auto& [name, tensor] : batch.tensors) {
    if (name != "labels") continue;
    const std::span<int32_t> labels = tensor.values<int32_t>();
    const size_t row = static_cast<size_t>(4 * (step / 2)) % labels.size();
    labels[row + 1] = labels[row + 2] = -1;
  }
  return batch;
}

double own_count(Batch& batch, Part own) {
  double count = 0;
  const std::span<int32_t> labels = batch.at("labels").values<int32_t>();
  for (int64_t i = own.begin; i < own.end(); ++i) count += labels[i] >= 0;
  return count;
}

}  // namespace

std::map<std::string, Floats> read(Trainer& trainer, Role role) {
  std::map<std::string, Floats> result;
  for (const State& state : trainer.program().states) {
    if (state.role != role || (role == Role::kGradient && !state.attrs.has("of"))) continue;
    Floats values(state.type.shape.elements());
    trainer.executor().read_state(state.name, values.data(), state.type.bytes());
    result[role == Role::kGradient ? std::string(state.attrs.text("of")) : state.name] = std::move(values);
  }
  return result;
}

LocalRun run_of(const Plan& plan, const Training& training) {
  LocalRun run;
  run.steps.resize(training.steps);
  std::mutex mutex;
  const int ranks = plan.mesh.ranks();
  comm::run_rank_threads(ranks, [&](comm::Context& context) {
    MeshCommunicator communicator(plan.mesh, context, comm::Algorithm::ring);
    const std::unique_ptr<Device> device = make_cpu_device(1);
    Trainer trainer(training.model, training.train, training.optim, training.shape, *device,
                    {plan, context.rank(), &communicator});
    trainer.initialise(1);
    {
      const std::lock_guard lock(mutex);
      run.start = read(trainer, Role::kParameter);
      run.start_statistics = read(trainer, Role::kBuffer);
    }
    for (int64_t step = 0; step < training.steps; ++step) {
      Batch batch = uneven_batch(training, step);
      const double count = own_count(batch, trainer.own_rows()[0]);
      communicator.take_bytes();
      trainer.forward_backward(batch, step);
      const std::map<std::string, Floats> gradients = read(trainer, Role::kGradient),
                                          made = read(trainer, Role::kPending);
      trainer.update(step, training.rate);
      const uint64_t bytes = communicator.take_bytes();
      const std::map<std::string, Floats> after = read(trainer, Role::kParameter),
                                          statistics = read(trainer, Role::kBuffer);
      const std::lock_guard lock(mutex);
      LocalStep& record = run.steps[step];
      record.counts.resize(ranks);
      record.bytes_sent.resize(ranks);
      record.counts[context.rank()] = count;
      record.bytes_sent[context.rank()] = bytes;
      for (const auto& [name, values] : statistics) {
        record.made[name].resize(ranks);
        record.made[name][context.rank()] = made.at(pending_name(name));
        record.statistics[name].resize(ranks);
        record.statistics[name][context.rank()] = values;
      }
      for (const auto& [name, values] : after) {
        record.after[name].resize(ranks);
        record.after[name][context.rank()] = values;
        record.gradients[name].resize(ranks);
        record.gradients[name][context.rank()] = gradients.at(name);
        for (float& value : record.gradients[name][context.rank()]) value /= static_cast<float>(count);
      }
    }
  });
  return run;
}

}  // namespace trireme::testing
