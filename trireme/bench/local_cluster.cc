// Devices by their own kernels, links by whole operations.
#include "trireme/bench/local_cluster.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "trireme/base/machine.h"
#include "trireme/base/statistics.h"
#include "trireme/bench/ceilings.h"
#include "trireme/bench/collective_timing.h"
#include "trireme/bench/device_ceilings.h"
#include "trireme/bench/kernels.h"
#include "trireme/bench/step_shares.h"
#include "trireme/comm/group.h"
#include "trireme/mesh/cluster_file.h"

namespace trireme::bench {
namespace {

constexpr double kSecondsPerKernel = 0.03;

ProductGrid measure_products(Device& device, DType dtype, double peak, const LaunchTime& launch) {
  ProductGrid grid;
  grid.m = grid.n = grid.k = device.name() == "cpu" ? std::vector<double>{16, 64, 256, 1024}
                                                    : std::vector<double>{128, 512, 2048, 8192};
  grid.efficiency.clear();
  for (const double m : grid.m) {
    for (const double n : grid.n) {
      for (const double k : grid.k) {
        const double seconds =
            measure_product_seconds(device, dtype, std::llround(m), std::llround(n), std::llround(k));
        grid.efficiency.push_back(2 * m * n * k / (launch.without(seconds) * peak));
      }
    }
  }
  return grid;
}

// The share of the roofline that each op reaches whose kernel has a benchmark; products have their grid.
std::map<std::string, OpShare, std::less<>> measure_ops(Device& device, DType dtype, ThreadPool& pool,
                                                        Ceilings& ceilings) {
  const bool cpu = device.name() == "cpu";
  std::map<std::string, std::vector<double>> shares;
  for (auto* cases : {attention_kernel_cases, row_kernel_cases, conv_kernel_cases}) {
    for (const KernelCase& test : cases(cpu ? kCpuSizes : kGpuSizes)) {
      const KernelTime time = cpu ? time_kernel(test, pool, ceilings, kSecondsPerKernel)
                                  : time_kernel(test, device, dtype, ceilings, kSecondsPerKernel);
      const double roofline = std::max(time.cost.flops / ceilings.flops_per_second(),
                                       time.cost.bytes / ceilings.memory_bytes_per_second());
      shares[test.op].push_back(roofline / time.median_seconds);
    }
  }
  std::map<std::string, OpShare, std::less<>> result;
  for (auto& [op, all] : shares) result.emplace(op, median_of(std::move(all)));
  return result;
}

}  // namespace

Cluster measure_local_cluster(Device& device, DType dtype, int threads, comm::Context* context,
                              const std::optional<StepSetup>& step) {
  const int ranks = context ? context->ranks() : 1;
  if (context) {
    comm::Group world = context->world();
    warm_up(world);
  }
  const bool cpu = device.name() == "cpu";
  ThreadPool pool(threads);
  Ceilings ceilings = cpu ? Ceilings(pool) : Ceilings(device, dtype);
  DeviceClass local{.name = cpu ? "core" : device.description(), .kind = device.name()};
  local.memory_bytes = static_cast<double>(device.free_bytes().value_or(total_memory_bytes())) / ranks;
  const LaunchTime launch = measure_launch(device);
  local.launch_seconds = launch.seconds;
  for (double bytes = 64 << 10; bytes <= (256 << 20); bytes *= 4)
    local.bandwidth.push_back({bytes, cpu ? ceilings.bytes_per_second(bytes)
                                          : measure_chain_bytes_per_second(device, bytes, launch)});
  for (const auto& [op, kernel] : device.kernels().all()) {
    if (kernel.run_many) local.at_once.insert(op.first);
  }
  if (cpu) dtype = DType::f32;
  local.flops_per_second[dtype] = ceilings.flops_per_second();
  // Not all ops of a step in 16 bits are: those on weights and sums are not.
  if (dtype != DType::f32)
    local.flops_per_second[DType::f32] = measure_product_flops_per_second(device, DType::f32);
  local.products = measure_products(device, dtype, ceilings.flops_per_second(), launch);
  if (cpu || !step) local.ops = measure_ops(device, dtype, pool, ceilings);  // on a GPU it takes a minute
  double seconds = 1 / ceilings.flops_per_second();
  if (step) {
    const StepShares shares = measure_step_shares(*step, ranks, device, local, launch);
    for (const auto& [op, share] : shares.of_ops) local.ops.insert_or_assign(op, share);
    seconds = shares.seconds;
  }

  Cluster cluster{
      .name = "local",
      .source = fmt::format("measured by trireme profile: {}, {} threads of each of {} ranks", cpu_model(),
                            threads, ranks),
      .devices = {local},
      .hosts = {{.device = local.name, .devices = ranks, .inside = ranks > 1 ? std::string(kLocalLink) : ""}},
      .links = {}};
  if (context && ranks > 1) cluster.links.push_back(measure_link(*context, device));
  check(cluster, "this machine");
  return context ? slowest_of(cluster, seconds, *context) : cluster;
}

Cluster slowest_of(const Cluster& own, double seconds, comm::Context& context) {
  comm::Group world = context.world();
  std::vector<double> all;
  for (const std::string& text : comm::gather_texts(fmt::format("{}", seconds), world))
    all.push_back(std::stod(text));
  const auto slowest = std::ranges::max_element(all) - all.begin();
  return parse_cluster(comm::gather_texts(to_toml(own), world)[static_cast<size_t>(slowest)],
                       fmt::format("what rank {} has measured", slowest));
}

}  // namespace trireme::bench
