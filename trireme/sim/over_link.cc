// See over_link.h.
#include "trireme/sim/over_link.h"

namespace trireme::sim {
namespace {

// Those that the plan names. Over a link none is native to the transport.
Algorithms named_algorithms(const Plan& plan) {
  Algorithms algorithms;
  for (const auto& [axis, text] : plan.algorithms) {
    const std::optional<comm::Algorithm> named = comm::parse_algorithm(text);
    if (named && *named != comm::Algorithm::native) algorithms[axis] = *named;
  }
  return algorithms;
}

}  // namespace

Cluster cluster_over(const comm::EmulatedLink& link, int hosts) {
  constexpr double kNoBound = 1e30;
  const double rate = link.bytes_per_second > 0 ? link.bytes_per_second : kNoBound;
  return {.name = "hosts over a link",
          .devices = {{.name = "rank",
                       .kind = "cpu",
                       .memory_bytes = kNoBound,
                       .bandwidth = {{0, kNoBound}},
                       .flops_per_second = {{DType::f32, kNoBound}}}},
          .hosts = {{.device = "rank", .count = hosts, .across = "link"}},
          .links = {{.name = "link", .alpha_seconds = link.costs().alpha_seconds, .bytes_per_second = rate}}};
}

SimReport step_over(const comm::EmulatedLink& link, const Plan& plan, const ProgramSource& programs,
                    double computing_seconds, int rank) {
  Cluster cluster = cluster_over(link, plan.mesh.ranks());
  const DeviceMap device_map(plan.mesh, cluster);
  const SimOptions options{.collectives = CollectiveModel::kAsRun,
                           .algorithms = named_algorithms(plan),
                           .ranks = SimOptions::Ranks::kAll,
                           .plan = plan};
  if (computing_seconds > 0) {
    const auto set_rate = [&](double rate) {
      cluster.devices[0].bandwidth[0].bytes_per_second = cluster.devices[0].flops_per_second[DType::f32] =
          rate;
    };
    constexpr double kGuess = 1e9;
    set_rate(kGuess);
    const SimReport report = simulate(device_map, programs, options);
    set_rate(kGuess * report.ranks[static_cast<size_t>(rank)].time.work_seconds / computing_seconds);
  }
  return simulate(device_map, programs, options);
}

double stop_seconds_over(const comm::EmulatedLink& link, const Plan& plan) {
  const Agreement& how = plan.agreement;
  if (how.delay() > 0 || !how.is_in_step() || how.servers()) return 0;
  const Cluster cluster = cluster_over(link, plan.mesh.ranks());
  const DeviceMap device_map(plan.mesh, cluster);
  CollectiveTimes times(device_map, CollectiveModel::kAsRun, named_algorithms(plan));
  double seconds = 0;
  for (int axis = 0; axis < static_cast<int>(plan.mesh.axes().size()); ++axis)
    seconds += times.seconds(times.group_class(0, axis), CollectiveKind::kAllReduce, sizeof(int32_t));
  return seconds / static_cast<double>(how.period());
}

}  // namespace trireme::sim
