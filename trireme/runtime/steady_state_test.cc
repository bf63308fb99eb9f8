// No heap allocation in the steady state: once the executor is made, running segments, giving inputs and
// reading results ask the heap for nothing; nor do collectives, with their transport.
#include <gtest/gtest.h>

#include <barrier>

#include "tests/support/allocation_count.h"
#include "trireme/ir/text.h"
#include "trireme/ops/table.h"
#include "trireme/passes/autodiff.h"
#include "trireme/program/build.h"
#include "trireme/runtime/executor.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme {
namespace {

constexpr int kSteps = 20;

Graph training_step() {
  Graph graph = parse_graph(
      "graph step\n"
      "state %w: f32[16,32] parameter\n"
      "state %gain: f32[32] parameter\n"
      "input %x: f32[8,16] batch\n"
      "input %targets: i32[8] batch\n"
      "input %lr: f32[] scalar\n"
      "%h: f32[8,32] = matmul(%x, %w)\n"
      "%n: f32[8,32], %rstd: f32[8] = rms_norm(%h, %gain) {eps=1e-05}\n"
      "%a: f32[8,32] = gelu(%n)\n"
      "%loss: f32[], %count: f32[], %lse: f32[8] = cross_entropy(%a, %targets)\n"
      "output loss = %loss\n",
      ops());
  const ValueId w = graph.find("w"), gain = graph.find("gain"), lr = graph.find("lr"),
                loss = graph.find("loss");
  Builder b(ops(), std::move(graph));
  const std::vector<ValueId> gradients = differentiate(b, loss, lr, {w, gain}).gradients;
  b.update(w, b.op("sgd", {w, gradients[0], lr, lr}));
  b.update(gain, b.op("sgd", {gain, gradients[1], lr, lr}));
  return b.take();
}

// A step on the first rows of a batch of eight.
class Steps {
 public:
  Steps(Program program, Device& device, Communicator* communicator)
      : executor_(std::move(program), device, communicator),
        rows_(executor_.program()
                  .segments[0]
                  .graph.type(executor_.program().segments[0].graph.find("targets"))
                  .shape[0]) {
    const std::vector<float> w(16 * 32, 0.01f), gain(32, 1);
    // Of a state that is split, its part.
    executor_.write_state("w", w.data(), executor_.state_type("w").bytes());
    executor_.write_state("gain", gain.data(), executor_.state_type("gain").bytes());
  }

  float step() {
    executor_.set_input(0, "x", x_.data(), rows_ * 16 * 4);
    executor_.set_input(0, "targets", targets_.data(), rows_ * 4);
    executor_.set_input(0, "lr", &lr_, 4);
    executor_.run(0);
    return executor_.scalar_output(0, "loss");
  }

 private:
  Executor executor_;
  const size_t rows_;
  const std::vector<float> x_ = std::vector<float>(8 * 16, 0.5f);
  const std::vector<int32_t> targets_ = std::vector<int32_t>(8, 3);
  const float lr_ = 0.1f;
};

TEST(SteadyState, AllocatesNothing) {
  const auto device = make_cpu_device(2);
  Steps steps(build_program({training_step()}, workspace_query(*device)), *device, nullptr);
  const float first = steps.step();
  const int64_t before = allocation_count();
  EXPECT_GT(before, 0) << "the counter must count";
  float loss = 0;
  for (int i = 0; i < kSteps; ++i) loss = steps.step();
  EXPECT_EQ(allocation_count(), before);
  EXPECT_LT(loss, first) << "the step must train";
}

int64_t collectives_of(const Program& program) {
  return std::ranges::count_if(program.segments[0].graph.nodes,
                               [](const Node& node) { return node.op->collective.has_value(); });
}

// Two ranks, data parallel and with split states, so that gradients are reduced or scattered and weights
// gathered, started early and waited for late.
TEST(SteadyState, AllocatesNothingForCollectives) {
  for (const char* preset : {"data", "zero3"}) {
    const Plan plan = read_plan(preset, 2);
    const ProgramBuilder builder({training_step()}, plan, /*microbatches=*/1);
    const Schedule schedule{.step = {Action::run("step")}};
    std::barrier together(2);
    comm::run_rank_threads(2, [&](comm::Context& context) {
      MeshCommunicator communicator(plan.mesh, context);
      const auto device = make_cpu_device(1);
      Program program = builder.build(context.rank(), schedule, workspace_query(*device));
      EXPECT_GE(collectives_of(program), 2) << preset;
      Steps steps(std::move(program), *device, &communicator);
      const float first = steps.step();
      for (int i = 0; i < kSteps; ++i) steps.step();
      together.arrive_and_wait();
      const int64_t before = allocation_count();
      together.arrive_and_wait();
      float loss = 0;
      for (int i = 0; i < kSteps; ++i) loss = steps.step();
      together.arrive_and_wait();
      EXPECT_EQ(allocation_count(), before) << preset;
      together.arrive_and_wait();
      EXPECT_LT(loss, first) << "the step must train";
    });
  }
}

}  // namespace
}  // namespace trireme
