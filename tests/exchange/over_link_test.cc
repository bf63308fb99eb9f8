// What is predicted of a link is what ranks over an emulated one wait for.
#include "trireme/sim/over_link.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>

#include "tests/support/times.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/step_programs.h"
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
  double seconds_over(const comm::EmulatedLink& link, const Plan& plan) const {
    const StepPrograms programs(model, train, optim, shape, plan);
    return step_over(link, plan, [&](int rank) { return programs.rank(rank, nullptr); }).step_seconds;
  }
};

// Of a step, over some of them: from the first rank's begin to the last one's end.
double measured(const Plan& plan, const comm::EmulatedLink& link) {
  using Clock = std::chrono::steady_clock;
  constexpr int kSteps = 4;
  const Setting setting;
  std::mutex mutex;
  Clock::time_point first = Clock::time_point::max(), last = Clock::time_point::min();
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
        trainer.step(batch, 0, 0.01);
        context.world().barrier().wait();
        const Clock::time_point begin = Clock::now();
        for (int64_t step = 1; step <= kSteps; ++step) trainer.step(batch, step, 0.01);
        const Clock::time_point end = Clock::now();
        const std::lock_guard lock(mutex);
        first = std::min(first, begin);
        last = std::max(last, end);
      },
      60, link);
  return std::chrono::duration<double>(last - first).count() / kSteps;
}

TEST(OverLink, AreWhatRanksWaitFor) {
  const Setting setting;
  const comm::EmulatedLink link = comm::parse_emulated_link("latency=5ms,bandwidth=20Mbit");
  for (const char* exchange :
       {R"("all_reduce")", R"({"method": "power_sgd", "rank": 1})", R"({"method": "top_k", "ratio": 0.01})",
        R"({"method": "pruned_ring", "ratio": 0.1})", R"({"method": "local", "steps": 1})", R"("d_psgd")"}) {
    const Plan plan = parse_plan(fmt::format(R"({{"mesh": "data:4", "exchange": {}}})", exchange), "test");
    const double predicted = setting.seconds_over(link, plan), found = measured(plan, link);
    EXPECT_GT(found, 0.6 * predicted) << exchange << ": " << predicted;
    EXPECT_LT(found, 1.4 * predicted + 0.03 + slack_seconds()) << exchange << ": " << predicted;
  }
}

// A list that is run every so many steps counts for its share.
TEST(OverLink, OfLocalStepsAreSpreadOverThem) {
  const Setting setting;
  const comm::EmulatedLink link = comm::parse_emulated_link("home");
  const auto seconds = [&](int steps) {
    const Plan plan = parse_plan(
        fmt::format(R"({{"mesh": "data:4", "exchange": {{"method": "local", "steps": {}}}}})", steps),
        "test");
    return setting.seconds_over(link, plan);
  };
  EXPECT_GT(seconds(1), 0.08);  // four messages after one another
  EXPECT_NEAR(seconds(10), seconds(1) / 10, 1e-9);
}

// Two messages one after another among four ranks, in the steps in which they hear of each other; none where
// they are told in another way.
TEST(OverLink, OfTheAgreementToStop) {
  const comm::EmulatedLink link = comm::parse_emulated_link("continents");
  const auto seconds = [&](const std::string& exchange) {
    return stop_seconds_over(
        link, parse_plan(fmt::format(R"({{"mesh": "data:4", "exchange": {}}})", exchange), "test"));
  };
  EXPECT_NEAR(seconds(R"("all_reduce")"), 0.4, 1e-3);
  EXPECT_NEAR(seconds(R"("sgp")"), 0.4, 1e-3);
  EXPECT_NEAR(seconds(R"({"method": "local", "steps": 8})"), 0.05, 1e-3);
  for (const char* exchange : {R"({"method": "delayed", "delay": 4})", R"("ad_psgd")", R"("ssp")"})
    EXPECT_EQ(seconds(exchange), 0) << exchange;
}

// A ring of four ranks has six messages after one another, also for what is small.
TEST(OverLink, OfTheAlgorithmThatThePlanNames) {
  const comm::EmulatedLink link = comm::parse_emulated_link("continents");
  const Plan ring = parse_plan(R"({"mesh": "data:4", "algorithm": "ring"})", "test"),
             automatic = parse_plan(R"({"mesh": "data:4"})", "test");
  EXPECT_NEAR(stop_seconds_over(link, ring), 1.2, 1e-3);
  const Setting setting;
  EXPECT_GT(setting.seconds_over(link, ring), 1.4 * setting.seconds_over(link, automatic));
}

// PowerSGD's sums of all matrices are under way together, each a small one: counts with whether all is
// finite, and the two narrow matrices make three waits of two messages, however many matrices there are.
TEST(OverLink, OfSumsThatAreUnderWayTogetherAreNotAddedUp) {
  Setting setting;
  setting.model.layers = 12;
  setting.model.hidden = 256;
  const comm::EmulatedLink link = comm::parse_emulated_link("latency=50ms,bandwidth=10Gbit");
  const Plan plan =
      parse_plan(R"({"mesh": "data:4", "exchange": {"method": "power_sgd", "rank": 4}})", "test");
  EXPECT_NEAR(setting.seconds_over(link, plan), 0.3, 0.01);
}

}  // namespace
}  // namespace trireme::sim
