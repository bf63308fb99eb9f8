// See prediction.h.
#include "trireme/bench/prediction.h"

#include <algorithm>

#include "trireme/base/machine.h"
#include "trireme/plan/clients.h"
#include "trireme/train/axis_algorithms.h"
#include "trireme/train/step_programs.h"

namespace trireme::bench {

Prediction predict(const StepSetup& setup, const Plan& plan, const Cluster& cluster,
                   sim::SimOptions options) {
  const Config& config = setup.config;
  const Model model(config.model);
  const StepPrograms programs(model, config.train, config.optim, setup.shape, plan);
  const Cluster with_precision = config.train.tf32 ? with_tf32(cluster) : cluster;
  const DeviceMap device_map(plan.mesh, with_precision);
  const long threads = config.train.threads;
  const std::unique_ptr<Device> here = device_here(
      config.train, threads ? static_cast<int>(threads) : std::max(1, thread_count(0) / plan.mesh.ranks()));
  const auto program = [&](int rank) {
    const bool known = here && here->name() == device_map.device(rank).kind;
    return programs.rank(rank, known ? here.get() : nullptr);
  };
  options.algorithms = axis_algorithms(plan, config.train);
  options.plan = plan;
  Prediction result{.report = sim::simulate(device_map, program, options),
                    .model_flops = model_flops(model, config.train, setup.shape) *
                                   Clients(plan.agreement, replicas_of(plan.mesh)).busy_share()};
  for (const sim::RankReport& rank : result.report.ranks)
    result.peak_flops_per_second += rank.stands_for * rank.device->peak(precision_of(config.train));
  result.units_per_second = static_cast<double>(setup.units_per_step()) / result.report.step_seconds;
  return result;
}

}  // namespace trireme::bench
