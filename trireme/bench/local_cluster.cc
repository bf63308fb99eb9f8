// Devices by their own kernels, links by whole operations.
#include "trireme/bench/local_cluster.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>

#include "trireme/bench/ceilings.h"
#include "trireme/bench/collective_timing.h"
#include "trireme/bench/device_ceilings.h"
#include "trireme/bench/kernels.h"
#include "trireme/bench/local_link.h"
#include "trireme/bench/machine.h"
#include "trireme/bench/statistics.h"
#include "trireme/bench/step_shares.h"
#include "trireme/ir/builder.h"
#include "trireme/ops/table.h"
#include "trireme/runtime/executor.h"

namespace trireme::bench {
namespace {

constexpr double kSecondsPerKernel = 0.03;

ProductGrid measure_products(Device& device, DType dtype, double peak) {
  ProductGrid grid;
  grid.m = grid.n = grid.k = device.name() == "cpu" ? std::vector<double>{16, 64, 256, 1024}
                                                    : std::vector<double>{128, 512, 2048, 8192};
  grid.efficiency.clear();
  for (const double m : grid.m) {
    for (const double n : grid.n) {
      for (const double k : grid.k) {
        const double seconds =
            measure_product_seconds(device, dtype, std::llround(m), std::llround(n), std::llround(k));
        grid.efficiency.push_back(2 * m * n * k / (seconds * peak));
      }
    }
  }
  return grid;
}

// What an op takes that has next to nothing to do, as the executor runs it.
double measure_launch_seconds(Device& device) {
  constexpr int kNodes = 256, kRuns = 9;
  Builder b(ops(), "chain");
  ValueId value = b.input("x", {DType::f32, {16}});
  for (int i = 0; i < kNodes; ++i) value = b.op("affine", {value}, {{"scale", 0.5}});
  b.output("y", value);
  Executor executor(build_program({b.take()}, workspace_query(device)), device);
  std::vector<double> seconds;
  for (int run = 0; run <= kRuns; ++run) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    executor.run(0);
    executor.synchronize();
    if (run > 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return median_of(seconds) / kNodes;
}

// The share of the roofline that each op reaches whose kernel has a benchmark; products have their grid.
std::map<std::string, double, std::less<>> measure_ops(Device& device, DType dtype, ThreadPool& pool,
                                                       Ceilings& ceilings) {
  const bool cpu = device.name() == "cpu";
  std::map<std::string, std::vector<double>> shares;
  for (auto* cases : {attention_kernel_cases, row_kernel_cases, conv_kernel_cases}) {
    for (const KernelCase& test : cases(cpu ? kCpuSizes : kGpuSizes)) {
      const KernelTime time = cpu ? time_kernel(test, pool, ceilings, kSecondsPerKernel)
                                  : time_kernel(test, pool, device, dtype, ceilings, kSecondsPerKernel);
      const double roofline = std::max(time.cost.flops / ceilings.flops_per_second(),
                                       time.cost.bytes / ceilings.memory_bytes_per_second());
      shares[test.op].push_back(roofline / time.median_seconds);
    }
  }
  std::map<std::string, double, std::less<>> result;
  for (auto& [op, all] : shares) result[op] = median_of(std::move(all));
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
  for (double bytes = 64 << 10; cpu && bytes <= (256 << 20); bytes *= 4)
    local.bandwidth.push_back({bytes, ceilings.bytes_per_second(bytes)});
  if (!cpu) local.bandwidth.push_back({0, ceilings.memory_bytes_per_second()});
  local.flops_per_second[cpu ? DType::f32 : dtype] = ceilings.flops_per_second();
  local.products = measure_products(device, cpu ? DType::f32 : dtype, ceilings.flops_per_second());
  if (cpu || !step) local.ops = measure_ops(device, dtype, pool, ceilings);  // on a GPU it takes a minute
  local.launch_seconds = measure_launch_seconds(device);
  if (step) {
    for (const auto& [op, share] : measure_step_shares(*step, ranks, device, local)) local.ops[op] = share;
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
  return cluster;
}

}  // namespace trireme::bench
