// See plan_ranks.h.
#include "trireme/train/parity/plan_ranks.h"

#include "trireme/comm/collective/emulated_link.h"
#include "trireme/comm/context.h"

namespace trireme::parity {
namespace {

constexpr double kTimeoutSeconds = 300;
const comm::EmulatedLink kJitteringLink{.latency_seconds = 1e-4, .jitter_seconds = 2e-3};

}  // namespace

void run_plan_ranks(const Reference& reference, const Plan& plan, const std::vector<Program>& programs,
                    AxisAlgorithms algorithms, Messages messages,
                    const std::function<void(PlanRank&)>& run_rank) {
  for (auto& [axis, algorithm] : algorithms) {
    if (algorithm == comm::Algorithm::native) algorithm = comm::Algorithm::automatic;
  }
  const Training& training = reference.training();
  const auto one_rank = [&](comm::Context& context) {
    const auto rank = static_cast<size_t>(context.rank());
    MeshCommunicator communicator(plan.mesh, context, algorithms);
    const RankOptions options{plan, context.rank(), context.ranks() > 1 ? &communicator : nullptr};
    const std::unique_ptr<Device> device =
        make_device({.kind = training.train.device, .links = context.device_links()});
    // A Trainer alone is no server and no worker.
    const RankOptions alone{Plan(), 0, &communicator};
    Trainer trainer(in_width(programs[rank], reference.width(), *device), training.train, training.shape,
                    *device, plan.agreement.servers() ? alone : options);
    trainer.initialise(static_cast<uint64_t>(training.train.seed));
    context.world().barrier().wait();
    communicator.take_bytes();
    const bool counts_bytes = device->memory() == Device::Memory::kOfHost ||
                              context.device_links() == comm::DeviceLinks::through_host;
    PlanRank one{options, communicator, trainer, counts_bytes};
    run_rank(one);
  };
  comm::run_rank_threads(plan.mesh.ranks(), one_rank, kTimeoutSeconds,
                         messages == Messages::kJittering ? std::optional(kJitteringLink) : std::nullopt);
}

AxisAlgorithms rings(const Mesh& mesh) {
  AxisAlgorithms algorithms;
  for (const Axis& axis : mesh.axes()) algorithms[axis.name] = comm::Algorithm::ring;
  return algorithms;
}

}  // namespace trireme::parity
