// See served_ranks.h.
#include "tests/exchange/served_ranks.h"

#include <chrono>
#include <mutex>
#include <thread>

#include "tests/exchange/local_ranks.h"
#include "trireme/base/error.h"
#include "trireme/comm/context.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/rank_steps.h"

namespace trireme::testing {
namespace {

RankOptions alone(Communicator& communicator) {
  return {Plan(), 0, &communicator};
}

// The first of several servers has all weights when they have met, each its own states of the optimizer.
void serve(Trainer& trainer, const RankOptions& ranks, const Training& training, const ServedOptions& options,
           ServedRun& run, std::mutex& mutex) {
  const Servers& servers = *ranks.plan.agreement.servers();
  const int number = ranks.rank;
  if (servers.count > 1)
    ranks.communicator->add_group(std::string(kServerAxis), comm::all_ranks(servers.count));
  std::optional<ArrivalOrder> replay;
  if (!options.replay.empty()) replay = options.replay[static_cast<size_t>(number)];
  RankSteps server(ranks, trainer, 0, training.steps, std::move(replay));
  Batch none;
  for (int64_t step = 0; step < training.steps && step != options.stop_after; ++step) {
    const StepResult result = server.step(none, step, training.rate);
    trainer.runner().run(When::asked(When::What::kMeet));
    run.orders[static_cast<size_t>(number)][step + 1] = server.arrivals()->arrivals(step + 1);
    if (number == kLeadingServer)
      run.steps.push_back({read(trainer, Role::kParameter), read(trainer, Role::kBuffer), result,
                           server.arrivals()->arrivals(step + 1)});
  }
  server.arrivals()->finish(ArrivalDriver::Why::kThrough);
  const std::lock_guard lock(mutex);
  run.optimizer.merge(read(trainer, Role::kOptimizer));
}

}  // namespace

ServedRun served_run(const Plan& plan, const Training& training, const ServedOptions& options) {
  const Servers servers = *plan.agreement.servers();
  ServedRun run;
  run.orders.resize(servers.count);
  run.left.resize(servers.workers);
  run.computed.resize(servers.workers);
  run.bytes_sent.resize(servers.workers);
  std::mutex mutex;
  const auto rank = [&](comm::Context& context) {
    MeshCommunicator communicator(plan.mesh, context, comm::Algorithm::ring);
    const RankOptions ranks{plan, context.rank(), &communicator};
    const std::unique_ptr<Device> device = make_cpu_device(1);
    Trainer trainer(
        step_program(training.model, training.train, training.optim, training.shape, *device, ranks),
        training.train, training.shape, *device, alone(communicator));
    trainer.initialise(1);
    context.world().barrier().wait();
    if (servers.serves(context.rank())) return serve(trainer, ranks, training, options, run, mutex);
    const int worker = context.rank() - servers.rank_of(0);
    trainer.loss_scale = options.loss_scale;
    communicator.take_bytes();
    for (int64_t step = 0;; ++step) {
      Batch batch = random_batch(training, step);
      if (!options.slow_milliseconds.empty())
        std::this_thread::sleep_for(std::chrono::milliseconds(options.slow_milliseconds[worker]));
      const StepResult result = trainer.step(batch, step, 0);
      const std::lock_guard lock(mutex);
      if (step == 0) run.bytes_sent[worker] = static_cast<double>(communicator.take_bytes());
      if (result.over == StepResult::Over::kNo) continue;
      run.left[worker] = read(trainer, Role::kParameter);
      run.computed[worker] = step + 1;
      return;
    }
  };
  // Of a server that gives up, its own words, not those of a worker that waited for it.
  std::string given_up;
  const auto noted = [&](comm::Context& context) {
    try {
      rank(context);
    } catch (const Error& error) {
      const std::lock_guard lock(mutex);
      if (servers.serves(context.rank()) && given_up.empty()) given_up = error.what();
      throw;
    }
  };
  try {
    comm::run_rank_threads(plan.mesh.ranks(), noted, 60, options.link);
  } catch (const Error&) {
    if (given_up.empty()) throw;
    throw_error("{}", given_up);
  }
  return run;
}

PlainRun plain_run(int ranks, const Training& training) {
  PlainRun run;
  const Plan plan = parse_plan(fmt::format(R"({{"mesh": "data:{}"}})", ranks), "a test");
  comm::run_rank_threads(ranks, [&](comm::Context& context) {
    MeshCommunicator communicator(plan.mesh, context, comm::Algorithm::naive);
    const std::unique_ptr<Device> device = make_cpu_device(1);
    Trainer trainer(training.model, training.train, training.optim, training.shape, *device,
                    {plan, context.rank(), &communicator});
    trainer.initialise(1);
    for (int64_t step = 0; step < training.steps; ++step) {
      Batch batch = random_batch(training, step);
      const StepResult result = trainer.step(batch, step, training.rate);
      if (context.rank() != 0) continue;
      run.weights.push_back(read(trainer, Role::kParameter));
      run.statistics.push_back(read(trainer, Role::kBuffer));
      run.results.push_back(result);
    }
    if (context.rank() == 0) run.optimizer = read(trainer, Role::kOptimizer);
  });
  return run;
}

}  // namespace trireme::testing
