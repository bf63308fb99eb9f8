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
#include "trireme/bench/machine.h"
#include "trireme/bench/statistics.h"
#include "trireme/bench/step_shares.h"
#include "trireme/ir/builder.h"
#include "trireme/ops/table.h"
#include "trireme/runtime/executor.h"

namespace trireme::bench {
namespace {

constexpr std::string_view kLink = "between ranks";
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

// What work loses to an all_reduce beside it, as a share of the time that this takes alone: a transport that
// copies by itself, and sockets, which the kernel serves on the same processors, take of what computes. Work
// is products of a millisecond or so, between which the all_reduce is moved, as the executor does.
double measure_slowdown(comm::Context& context, Device& device, size_t bytes, double seconds) {
  using Clock = std::chrono::steady_clock;
  constexpr int kRounds = 5;
  constexpr int64_t kSide = 384;
  Builder b(ops(), "product");
  b.output("y", b.op("matmul", {b.input("a", {DType::f32, {kSide, kSide}}),
                                b.input("b", {DType::f32, {kSide, kSide}})}));
  Executor executor(build_program({b.take()}, workspace_query(device)), device);
  const std::vector<float> ones(kSide * kSide, 1.0f);
  for (const char* name : {"a", "b"}) executor.set_input(0, name, ones.data(), ones.size() * sizeof(float));
  comm::Group world = context.world();
  const std::unique_ptr<comm::Memory> memory = context.transport().allocate(bytes);
  // Work that takes about twice as long as the all_reduce, the same number of products on all ranks.
  const double product = measure_product_seconds(device, DType::f32, kSide, kSide, kSide);
  double products = std::ceil(2 * seconds / product) + 1;
  world.all_reduce(&products, 1, DType::f64, comm::ReduceOp::max).wait();
  const auto seconds_of_work = [&](comm::Handle* beside) {
    const Clock::time_point begin = Clock::now();
    for (double i = 0; i < products; ++i) {
      executor.run(0);
      if (beside) beside->done();
    }
    if (beside) beside->wait();
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  std::vector<double> lost;
  for (int round = 0; round < kRounds; ++round) {
    world.barrier().wait();
    const double alone = seconds_of_work(nullptr);
    world.barrier().wait();
    comm::Handle handle = world.all_reduce(
        memory->bytes().data(), static_cast<int64_t>(bytes / sizeof(float)), DType::f32, comm::ReduceOp::sum);
    lost.push_back((seconds_of_work(&handle) - alone) / seconds);
  }
  return std::clamp(median_of(lost), 0.0, 1.0);
}

// α and β of an all_reduce by a ring: T(n) = 2 (P − 1) α + 2 (P − 1)/P n β, through a short one and two long
// ones.
LinkClass measure_link(comm::Context& context, Device& device) {
  comm::Group world = context.world();
  CollectiveQuestion question;
  question.algorithms = {comm::Algorithm::automatic};
  question.sizes = {64, size_t{1} << 20, size_t{16} << 20};
  const std::vector<CollectiveTime> times =
      time_collective(context, world, question, [](const CollectiveTime&) {});
  const double ranks = context.ranks(), rounds = 2 * (ranks - 1);
  const double longer = times[2].median_seconds - times[1].median_seconds;
  const double bytes = static_cast<double>(times[2].bytes - times[1].bytes);
  return {.name = std::string(kLink),
          .alpha_seconds = times[0].median_seconds / rounds,
          .bytes_per_second = rounds / ranks * bytes / longer,
          .slowdown = device.name() == "cpu"
                          ? measure_slowdown(context, device, times[2].bytes, times[2].median_seconds)
                          : 0};
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
      .hosts = {{.device = local.name, .devices = ranks, .inside = ranks > 1 ? std::string(kLink) : ""}},
      .links = {}};
  if (context && ranks > 1) cluster.links.push_back(measure_link(*context, device));
  check(cluster, "this machine");
  return cluster;
}

}  // namespace trireme::bench
