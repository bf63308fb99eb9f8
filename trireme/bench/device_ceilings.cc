// See device_ceilings.h. Medians of several runs, after one that does not count.
#include "trireme/bench/device_ceilings.h"

#include <algorithm>

#include "trireme/base/clock.h"
#include "trireme/base/rng.h"
#include "trireme/base/statistics.h"
#include "trireme/ir/builder.h"
#include "trireme/ops/table.h"
#include "trireme/runtime/executor.h"

namespace trireme::bench {
namespace {

constexpr int64_t kSide = 8192;
constexpr int kRuns = 7;
// What is left of a node's time without its launch is at least this much of it.
constexpr double kLeastPart = 0.1;
// Random numbers are drawn so many at a time, and taken again: drawing takes longer than large products do.
constexpr size_t kDrawn = size_t{1} << 20;

// Nodes of which each reads what the one before has written.
Executor chain_of(Device& device, int nodes, int64_t elements) {
  Builder b(ops(), "chain");
  ValueId value = b.input("x", {DType::f32, {elements}});
  for (int i = 0; i < nodes; ++i) value = b.op("affine", {value}, {{"scale", 0.5}});
  b.output("y", value);
  return Executor(build_program({b.take()}, workspace_query(device)), device);
}

// Of all nodes together.
double median_run_seconds(Executor& executor) {
  std::vector<double> seconds;
  constexpr int kNotCounted = 2;  // in which launches are set up and noted down
  for (int run = 0; run < kNotCounted + kRuns; ++run) {
    const Clock::time_point begin = Clock::now();
    executor.run(0);
    executor.synchronize();
    if (run >= kNotCounted) seconds.push_back(seconds_since(begin));
  }
  return median_of(seconds);
}

}  // namespace

double LaunchTime::without(double told_seconds) const {
  return std::max(told_seconds - timed_seconds, kLeastPart * told_seconds);
}

LaunchTime measure_launch(Device& device) {
  constexpr int kNodes = 256;
  Executor executor = chain_of(device, kNodes, 16);
  LaunchTime launch{.seconds = median_run_seconds(executor) / kNodes};
  std::vector<double> told;
  executor.time([&](int, int, double seconds) { told.push_back(seconds); });
  for (int run = 0; run < kRuns; ++run) executor.run(0);
  launch.timed_seconds = median_of(told);
  return launch;
}

double measure_chain_bytes_per_second(Device& device, double bytes, const LaunchTime& launch) {
  constexpr int kNodes = 32;
  Executor executor = chain_of(device, kNodes, static_cast<int64_t>(bytes) / 2 / sizeof(float));
  const double seconds = median_run_seconds(executor) / kNodes;
  return bytes / std::max(seconds - launch.seconds, kLeastPart * seconds);
}

double measure_product_seconds(Device& device, DType dtype, int64_t m, int64_t n, int64_t k) {
  Builder b(ops(), "product");
  const auto input = [&](const char* name, const Shape& shape) {
    const ValueId value = b.input(name, {DType::f32, shape});
    return dtype == DType::f32 ? value : b.op("cast", {value}, {{"to", std::string(trireme::name(dtype))}});
  };
  const ValueId left = input("a", {m, k}), right = input("b", {k, n});
  b.output("y", b.op("matmul", {left, right}));
  Executor executor(build_program({b.take()}, workspace_query(device)), device);
  // Random numbers: zeros take less power and are multiplied faster than any real data.
  std::vector<float> values(static_cast<size_t>(std::max(m, n) * k));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = i < kDrawn ? 2 * uniform({1, stream_id("ceiling")}, i) - 1 : values[i - kDrawn];
  executor.set_input(0, "a", values.data(), static_cast<size_t>(m * k) * sizeof(float));
  executor.set_input(0, "b", values.data(), static_cast<size_t>(n * k) * sizeof(float));
  const Graph& graph = executor.program().segments[0].graph;
  const int product = graph.values[graph.outputs[0].value].node;  // not a cast
  std::vector<double> seconds;
  executor.run(0);
  executor.time([&](int, int node, double spent) {
    if (node == product) seconds.push_back(spent);
  });
  for (int run = 0; run < kRuns; ++run) executor.run(0);
  return median_of(seconds);
}

double measure_product_flops_per_second(Device& device, DType dtype) {
  return 2.0 * kSide * kSide * kSide / measure_product_seconds(device, dtype, kSide, kSide, kSide);
}

double measure_copy_bytes_per_second(Device& device) {
  constexpr size_t kBytes = size_t{1} << 30;
  const Buffer from = device.allocate(kBytes), to = device.allocate(kBytes);
  const std::unique_ptr<Stream> stream = device.make_stream();
  std::vector<double> seconds;
  for (int run = 0; run <= kRuns; ++run) {
    stream->synchronize();
    const Clock::time_point begin = Clock::now();
    stream->copy(to.data(), from.data(), kBytes);
    stream->synchronize();
    if (run > 0) seconds.push_back(seconds_since(begin));
  }
  return 2.0 * kBytes / median_of(seconds);
}

}  // namespace trireme::bench
