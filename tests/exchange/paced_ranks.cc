// See paced_ranks.h.
#include "tests/exchange/paced_ranks.h"

#include <mutex>

#include "tests/exchange/local_ranks.h"
#include "trireme/comm/context.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme::testing {

std::vector<ArrivalOrder> PacedRun::orders() const {
  std::vector<ArrivalOrder> result;
  for (const PacedRank& rank : ranks) result.push_back(rank.order);
  return result;
}

PacedRun paced_run(const Plan& plan, const Training& training, const PacedOptions& options) {
  PacedRun run;
  run.ranks.resize(static_cast<size_t>(plan.mesh.ranks()));
  const auto rank = [&](comm::Context& context) {
    const int number = context.rank();
    PacedRank& own = run.ranks[static_cast<size_t>(number)];
    MeshCommunicator communicator(plan.mesh, context, comm::Algorithm::ring);
    const RankOptions ranks{plan, number, &communicator};
    const std::unique_ptr<Device> device = make_cpu_device(1);
    Trainer trainer(training.model, training.train, training.optim, training.shape, *device, ranks);
    trainer.initialise(1);
    if (number == 0) run.start = read(trainer, Role::kParameter);
    context.world().barrier().wait();
    std::optional<ArrivalOrder> replay;
    if (!options.replay.empty()) replay = options.replay[static_cast<size_t>(number)];
    RankSteps steps(ranks, trainer, 0, training.steps, std::move(replay));
    bool stopped = false;
    for (int64_t step = 0; step < training.steps && !stopped; ++step) {
      if (options.before && !options.before(number, step, communicator)) {
        stopped = true;
        break;
      }
      Batch batch = random_batch(training, step);
      const StepResult result = steps.step(batch, step, training.rate);
      PacedRank::Step& record = own.steps.emplace_back();
      record.result = result;
      record.after = read(trainer, Role::kParameter);
      record.gradients = read(trainer, Role::kGradient);
      const auto rows = static_cast<float>(trainer.own_rows()[0].size);
      for (auto& [name, values] : record.gradients) {
        for (float& value : values) value /= rows;
      }
      stopped = steps.arrivals() && steps.arrivals()->is_asked_to_stop();
    }
    if (steps.arrivals()) {
      steps.arrivals()->finish(stopped ? ArrivalDriver::Why::kStopped : ArrivalDriver::Why::kThrough);
      own.order = steps.arrivals()->take_order();
    }
    own.left = read(trainer, Role::kParameter);
  };
  comm::run_rank_threads(plan.mesh.ranks(), rank, 60, options.link);
  return run;
}

}  // namespace trireme::testing
