// See paced_ranks.h.
#include "tests/exchange/paced_ranks.h"

#include <mutex>

#include "tests/exchange/local_ranks.h"
#include "trireme/comm/context.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme::testing {

std::vector<GossipSteps::Order> PacedRun::orders() const {
  std::vector<GossipSteps::Order> result;
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
    std::optional<GossipSteps::Order> replay;
    if (!options.replay.empty()) replay = options.replay[static_cast<size_t>(number)];
    const bool paced = !plan.agreement.is_in_step();
    const std::unique_ptr<GossipSteps> gossip =
        paced ? GossipSteps::make(ranks, trainer, 0, std::move(replay)) : nullptr;
    bool stopped = false;
    for (int64_t step = 0; step < training.steps && !stopped; ++step) {
      if (options.before && !options.before(number, step, communicator)) {
        stopped = true;
        break;
      }
      Batch batch = random_batch(training, step);
      const StepResult result =
          paced ? gossip->step(batch, step, training.rate) : trainer.step(batch, step, training.rate);
      PacedRank::Step& record = own.steps.emplace_back();
      record.result = result;
      record.after = read(trainer, Role::kParameter);
      record.gradients = read(trainer, Role::kGradient);
      const auto rows = static_cast<float>(trainer.own_rows()[0].size);
      for (auto& [name, values] : record.gradients) {
        for (float& value : values) value /= rows;
      }
      stopped = paced && gossip->others_stop();
    }
    if (paced) {
      gossip->finish(stopped ? GossipSteps::Why::kStopped : GossipSteps::Why::kThrough);
      own.order = gossip->take_arrivals();
    }
    own.left = read(trainer, Role::kParameter);
  };
  comm::run_rank_threads(plan.mesh.ranks(), rank, 60, options.link);
  return run;
}

}  // namespace trireme::testing
