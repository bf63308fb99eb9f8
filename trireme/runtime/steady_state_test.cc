// No heap allocation in the steady state: once the executor is made, running segments, giving inputs and
// reading results ask the heap for nothing.
#include <gtest/gtest.h>

#include "tests/support/allocation_count.h"
#include "trireme/ir/text.h"
#include "trireme/ops/table.h"
#include "trireme/passes/autodiff.h"
#include "trireme/runtime/executor.h"

namespace trireme {
namespace {

Graph training_step() {
  Graph graph = parse_graph(
      "graph step\n"
      "state %w: f32[16,32]\n"
      "state %gain: f32[32]\n"
      "input %x: f32[8,16]\n"
      "input %targets: i32[8]\n"
      "input %lr: f32[]\n"
      "%h: f32[8,32] = matmul(%x, %w)\n"
      "%n: f32[8,32], %rstd: f32[8] = rms_norm(%h, %gain) {eps=1e-05}\n"
      "%a: f32[8,32] = gelu(%n)\n"
      "%loss: f32[], %count: f32[], %lse: f32[8] = cross_entropy(%a, %targets)\n"
      "output loss = %loss\n",
      ops());
  const ValueId w = graph.find("w"), lr = graph.find("lr"), loss = graph.find("loss");
  Builder b(ops(), std::move(graph));
  const ValueId gradient = differentiate(b, loss, lr, {w}).gradients[0];
  b.update(w, b.op("sgd", {w, gradient, lr, lr}));
  return b.take();
}

TEST(SteadyState, AllocatesNothing) {
  const auto device = make_cpu_device(2);
  Executor executor(build_program({training_step()}, workspace_query(*device)), *device);
  const std::vector<float> w(16 * 32, 0.01f), gain(32, 1), x(8 * 16, 0.5f);
  const std::vector<int32_t> targets(8, 3);
  const float lr = 0.1f;
  executor.write_state("w", w.data(), w.size() * 4);
  executor.write_state("gain", gain.data(), gain.size() * 4);

  float loss = 0;
  const auto step = [&] {
    executor.set_input(0, "x", x.data(), x.size() * 4);
    executor.set_input(0, "targets", targets.data(), targets.size() * 4);
    executor.set_input(0, "lr", &lr, 4);
    executor.run(0);
    loss = executor.scalar_output(0, "loss");
  };
  step();
  const float first = loss;
  const int64_t before = allocation_count();
  EXPECT_GT(before, 0) << "the counter must count";
  for (int i = 0; i < 20; ++i) step();
  EXPECT_EQ(allocation_count(), before);
  EXPECT_LT(loss, first) << "the step must train";
}

}  // namespace
}  // namespace trireme
