// What is predicted of a link is what ranks over an emulated one wait for.
#include "trireme/sim/link_seconds.h"

#include <gtest/gtest.h>

#include <chrono>

#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/trainer.h"

namespace trireme::sim {
namespace {

struct Setting {
  ModelOptions model;
  TrainOptions train;
  OptimOptions optim;
  StepShape shape{8, {1, 10, 10}};

  Setting() {
    model.family = "mlp";
    model.layers = 2;
    model.hidden = 100;
    model.classes = 10;
    optim.kind = "sgd";
  }
};

// The shortest of some steps: of those before it only the slowest rank's lateness differs.
double measured(const Plan& plan, const comm::EmulatedLink& link) {
  const Setting setting;
  double least = 1e9;
  comm::run_rank_threads(
      plan.mesh.ranks(),
      [&](comm::Context& context) {
        MeshCommunicator communicator(plan.mesh, context);
        const std::unique_ptr<Device> device = make_cpu_device(1);
        Trainer trainer(setting.model, setting.train, setting.optim, setting.shape, *device,
                        {plan, context.rank(), &communicator});
        trainer.initialise(1);
        Batch batch;
        batch.rows = setting.shape.rows;
        batch.tensors.emplace_back("images", HostTensor{}).second.reset(DType::f32, {8, 1, 10, 10});
        batch.tensors.emplace_back("labels", HostTensor{}).second.reset(DType::i32, {8});
        for (int64_t step = 0; step < 5; ++step) {
          const auto begin = std::chrono::steady_clock::now();
          trainer.step(batch, step, 0.01);
          const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
          if (context.rank() == 0 && step > 0) least = std::min(least, took.count());
        }
      },
      60, link);
  return least;
}

TEST(LinkSeconds, AreWhatRanksWaitFor) {
  const Setting setting;
  const comm::EmulatedLink link = comm::parse_emulated_link("latency=5ms,bandwidth=20Mbit");
  for (const char* exchange :
       {R"("all_reduce")", R"({"method": "power_sgd", "rank": 1})", R"({"method": "top_k", "ratio": 0.01})",
        R"({"method": "local", "steps": 1})"}) {
    const Plan plan = parse_plan(fmt::format(R"({{"mesh": "data:4", "exchange": {}}})", exchange), "test");
    const std::unique_ptr<Device> device = make_cpu_device(1);
    const Program program =
        step_program(setting.model, setting.train, setting.optim, setting.shape, *device, {plan, 0});
    const double predicted = link_seconds_in_step(program, link), found = measured(plan, link);
    EXPECT_GT(found, 0.6 * predicted) << exchange << ": " << predicted;
    EXPECT_LT(found, 1.4 * predicted + 0.03) << exchange << ": " << predicted;
  }
}

// A list that is run every so many steps counts for its share.
TEST(LinkSeconds, OfLocalStepsAreSpreadOverThem) {
  const Setting setting;
  const comm::EmulatedLink link = comm::parse_emulated_link("home");
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const auto seconds = [&](int steps) {
    const Plan plan = parse_plan(
        fmt::format(R"({{"mesh": "data:4", "exchange": {{"method": "local", "steps": {}}}}})", steps),
        "test");
    return link_seconds_in_step(
        step_program(setting.model, setting.train, setting.optim, setting.shape, *device, {plan, 0}), link);
  };
  EXPECT_GT(seconds(1), 0.08);  // four messages after one another
  EXPECT_NEAR(seconds(10), seconds(1) / 10, 1e-9);
}

}  // namespace
}  // namespace trireme::sim
