// See device_ceilings.h. Medians of several runs, after one that does not count.
#include "trireme/cli/device_ceilings.h"

#include <chrono>

#include "trireme/base/rng.h"
#include "trireme/cli/statistics.h"
#include "trireme/ir/builder.h"
#include "trireme/ops/table.h"
#include "trireme/runtime/executor.h"

namespace trireme::cli {
namespace {

constexpr int64_t kSide = 8192;
constexpr int kRuns = 7;

}  // namespace

double measure_product_flops_per_second(Device& device, DType dtype) {
  Builder b(ops(), "product");
  const TensorType f32{DType::f32, {kSide, kSide}};
  const auto as_dtype = [&](ValueId value) {
    return dtype == DType::f32 ? value : b.op("cast", {value}, {{"to", std::string(name(dtype))}});
  };
  b.output("y", b.op("matmul", {as_dtype(b.input("a", f32)), as_dtype(b.input("b", f32))}));
  Executor executor(build_program({b.take()}, workspace_query(device)), device);
  // Random numbers: zeros take less power and are multiplied faster than any real data.
  std::vector<float> values(kSide * kSide);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 2 * uniform({1, stream_id("ceiling")}, i) - 1;
  for (const char* input : {"a", "b"})
    executor.set_input(0, input, values.data(), values.size() * sizeof(float));
  const Graph& graph = executor.program().segments[0].graph;
  const int product = graph.values[graph.outputs[0].value].node;  // not a cast
  std::vector<double> seconds;
  executor.run(0);
  executor.time([&](int, int node, double spent) {
    if (node == product) seconds.push_back(spent);
  });
  for (int run = 0; run < kRuns; ++run) executor.run(0);
  return 2.0 * kSide * kSide * kSide / median_of(seconds);
}

double measure_copy_bytes_per_second(Device& device) {
  constexpr size_t kBytes = size_t{1} << 30;
  const Buffer from = device.allocate(kBytes), to = device.allocate(kBytes);
  const std::unique_ptr<Stream> stream = device.make_stream();
  std::vector<double> seconds;
  for (int run = 0; run <= kRuns; ++run) {
    using Clock = std::chrono::steady_clock;
    stream->synchronize();
    const Clock::time_point begin = Clock::now();
    stream->copy(to.data(), from.data(), kBytes);
    stream->synchronize();
    if (run > 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return 2.0 * kBytes / median_of(seconds);
}

}  // namespace trireme::cli
