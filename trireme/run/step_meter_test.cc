// The log lines of steps that really ran, alone and with a peer.
#include "trireme/run/step_meter.h"

#include <gtest/gtest.h>

#include "trireme/comm/context.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme {
namespace {

const StepShape kImages{4, {1, 2, 2}};

ModelOptions small_model() {
  ModelOptions model;
  model.family = "mlp";
  model.layers = 1;
  model.classes = 2;
  return model;
}

TEST(StepMeter, CountsUnitsFlopsAndSamples) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Trainer trainer(small_model(), {}, {}, kImages, *device);
  StepMeter meter({.batch = 4, .units = 32, .flops = 1e6, .seconds_before = 1000}, trainer);
  meter.begin();
  StepResult done;
  done.loss = 2;
  done.norm = 3;
  const StepMetrics line = meter.end(7, done, 0.5, 28, nullptr, 1e9);
  EXPECT_EQ(line.step, 7);
  EXPECT_EQ(line.loss, 2);
  EXPECT_EQ(line.lr, 0.5);
  EXPECT_EQ(line.grad_norm, 3);
  EXPECT_EQ(line.samples, 28);
  EXPECT_GT(line.step_seconds, 0);
  EXPECT_DOUBLE_EQ(line.samples_per_second * line.step_seconds, 32);
  EXPECT_DOUBLE_EQ(*line.mfu * line.step_seconds, 1e-3);
  EXPECT_GE(line.seconds, 1000);
  EXPECT_EQ(line.bytes_sent, 0u);
  EXPECT_FALSE(line.waiting_share);
  EXPECT_FALSE(line.compression_ratio);
  EXPECT_FALSE(meter.end(8, done, 0.5, 32, nullptr, 0).mfu);
}

// What ranks say to each other between steps is not the step's.
TEST(StepMeter, OfBytesCountsThoseOfTheStep) {
  const Plan plan = parse_plan(R"({"mesh": "data:2"})", "the plan");
  comm::run_rank_threads(2, [&](comm::Context& context) {
    MeshCommunicator communicator(plan.mesh, context);
    const std::unique_ptr<Device> device = make_cpu_device(1);
    Trainer trainer(small_model(), {}, {}, kImages, *device, {plan, context.rank(), &communicator});
    StepMeter meter({.batch = 4, .units = 4, .dense_bytes = 100}, trainer);
    std::vector<float> numbers(100, 1);
    const auto send = [&](int64_t count) {
      communicator.start({CollectiveKind::kAllReduce, kDataAxis, reinterpret_cast<std::byte*>(numbers.data()),
                          count, DType::f32, Communicator::Reduction::kSum});
      communicator.wait(reinterpret_cast<std::byte*>(numbers.data()));
    };
    send(100);
    meter.begin();
    send(10);
    const StepMetrics first = meter.end(1, {}, 0, 0, nullptr, 0);
    EXPECT_GT(first.bytes_sent, 0u);
    EXPECT_LT(first.bytes_sent, 400u);
    EXPECT_DOUBLE_EQ(*first.compression_ratio, 100.0 / static_cast<double>(first.bytes_sent));
    EXPECT_TRUE(first.waiting_share);
    meter.begin();
    const StepMetrics second = meter.end(2, {}, 0, 0, nullptr, 0);
    EXPECT_EQ(second.bytes_sent, 0u);
    EXPECT_DOUBLE_EQ(*second.compression_ratio, 200.0 / static_cast<double>(first.bytes_sent));  // of both
  });
}

}  // namespace
}  // namespace trireme
