// Every way in which replicas agree, on the clock, against times and bytes that were worked out on paper.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "trireme/ops/table.h"
#include "trireme/passes/pins.h"
#include "trireme/sim/simulate.h"
#include "trireme/train/step_programs.h"

namespace trireme::sim {
namespace {

// Hosts of one device. Products of 128 FLOPs take a second and all else no time.
Cluster hosts(int count, double bytes_per_second, double alpha_seconds = 0) {
  Cluster cluster{
      .name = "paper",
      .devices = {{.name = "device",
                   .memory_bytes = 1e9,
                   .bandwidth = {{0, 1e30}},
                   .flops_per_second = {{DType::f32, 128}}}},
      .hosts = {{.device = "device", .devices = 1, .count = count, .across = "wire"}},
      .links = {{.name = "wire", .alpha_seconds = alpha_seconds, .bytes_per_second = bytes_per_second}}};
  for (const std::string& op : ops().names()) {
    if (op != "matmul") cluster.devices[0].ops.emplace(op, 1e30);
  }
  return cluster;
}

enum class Computing { kNone, kFiveSeconds };

// Two layers of 8 inputs and 8 outputs on images of 8 pixels, one row a rank: 144 parameters, 576 bytes. Two
// products forward and three backward, of 128 FLOPs each.
SimReport run(const std::string& plan_text, Cluster cluster, Computing work = Computing::kNone,
              const Disturbance& disturbance = {}) {
  const Plan plan = parse_plan(plan_text, "test");
  ModelOptions model;
  model.family = "mlp";
  model.layers = 2;
  model.hidden = 8;
  model.classes = 8;
  TrainOptions train;
  train.batch = batch_parts(plan);
  train.clip_norm = 0;
  OptimOptions optim;
  optim.kind = "sgd";
  if (work == Computing::kNone) cluster.devices[0].flops_per_second = {{DType::f32, 1e30}};
  const StepPrograms programs(model, train, optim, {train.batch, {1, 2, 4}}, plan);
  const DeviceMap device_map(plan.mesh, cluster);
  return simulate(device_map, [&](int rank) { return programs.rank(rank, kNoWorkspace); },
                  {.events = Events::kRecorded, .disturbance = disturbance, .plan = plan});
}

void expect_bytes(const SimReport& report, const std::vector<double>& sent) {
  ASSERT_EQ(report.ranks.size(), sent.size());
  double all = 0;
  for (size_t rank = 0; rank < sent.size(); ++rank) {
    EXPECT_DOUBLE_EQ(report.ranks[rank].time.bytes_sent, sent[rank]) << rank;
    all += report.ranks[rank].stands_for * sent[rank];
  }
  EXPECT_NEAR(report.bytes_sent, all, 1e-9 * all);
  EXPECT_NEAR(report.bytes[static_cast<size_t>(Reach::kAcross)], all, 1e-9 * all);
}

// Two ranks send half of 608 bytes twice to add them up: 608 s at 1 byte a second, in one of four steps. That
// is 576 of tensors, and the rest of the line of 64 bytes behind the first bias.
TEST(AgreementByHand, AMeetingEveryFourStepsCostsAQuarterOfIt) {
  for (const char* method : {"local", "diloco"}) {
    const SimReport report =
        run(fmt::format(R"({{"mesh": "data:2", "exchange": {{"method": "{}", "steps": 4}}}})", method),
            hosts(2, 1));
    EXPECT_NEAR(report.step_seconds, 152, 1e-9);
    EXPECT_NEAR(report.ranks[0].time.exposed_seconds[0], 152, 1e-9);
    EXPECT_EQ(report.steps, 4);
    EXPECT_NEAR(report.bytes_sent, 2 * 152, 1e-9);
    // The timeline is that of a period: four updates and the meeting behind the last.
    int updates = 0, meetings = 0;
    double meets_seconds = 0;
    for (const TraceEvent& event : report.ranks[0].time.events) {
      updates += event.name == "update";
      meetings += event.name == "exchange";
      if (event.name == "exchange") meets_seconds = event.end - event.begin;
    }
    EXPECT_EQ(updates, 4);
    EXPECT_EQ(meetings, 1);
    EXPECT_NEAR(meets_seconds, 608, 1e-9);
  }
}

// A sum of 576 bytes is begun behind each step and awaited two steps later. At 192 bytes a second it takes 3
// s, less than the 5 s of a step's work, and nobody waits for it; at 28.8 it takes 20 s, and as one comes
// behind the other, so does a step. Without the delay a step takes both, and tensors go together with what
// lies between them: 608 bytes.
TEST(AgreementByHand, ADelayedSumGoesOnBesideTheSteps) {
  const std::string delayed =
      R"({"mesh": "data:2", "exchange": {"method": "delayed", "period": 1, "delay": 2}})";
  const std::string at_once =
      R"({"mesh": "data:2", "exchange": {"method": "delayed", "period": 1, "delay": 0}})";
  EXPECT_NEAR(run(delayed, hosts(2, 192), Computing::kFiveSeconds).step_seconds, 5, 1e-9);
  EXPECT_NEAR(run(delayed, hosts(2, 28.8), Computing::kFiveSeconds).step_seconds, 20, 1e-9);
  EXPECT_NEAR(run(at_once, hosts(2, 192), Computing::kFiveSeconds).step_seconds, 5 + 608 / 192.0, 1e-9);
  EXPECT_NEAR(run(at_once, hosts(2, 28.8), Computing::kFiveSeconds).step_seconds, 5 + 608 / 28.8, 1e-9);
  EXPECT_NEAR(run(delayed, hosts(2, 192), Computing::kFiveSeconds).bytes_sent, 2 * 576, 1e-9);
}

// In a ring of four each rank sends its 576 bytes to both neighbours, at 576 bytes a second one after the
// other, and takes theirs so: 2 s, and 5 s of work before.
TEST(AgreementByHand, NeighboursSendToBothSides) {
  const std::string plan = R"({"mesh": "data:4", "exchange": {"method": "d_psgd", "graph": "ring"}})";
  const SimReport report = run(plan, hosts(4, 576));
  EXPECT_NEAR(report.step_seconds, 2, 1e-9);
  expect_bytes(report, {1152, 1152, 1152, 1152});
  EXPECT_NEAR(run(plan, hosts(4, 576), Computing::kFiveSeconds).step_seconds, 7, 1e-9);
  // A link that takes a second more until the first byte is there makes it a second more, for all messages.
  EXPECT_NEAR(run(plan, hosts(4, 576, 1)).step_seconds, 3, 1e-9);
}

// To one other rank in each step, with the weight of what is sent: 580 bytes.
TEST(AgreementByHand, PushesGoToOneRankAtATime) {
  const SimReport report =
      run(R"({"mesh": "data:4", "exchange": {"method": "sgp", "graph": "exponential"}})", hosts(4, 580));
  EXPECT_NEAR(report.step_seconds, 1, 1e-9);
  EXPECT_EQ(report.steps, 2);  // 1 and 2 ranks ahead, in turn
  expect_bytes(report, {580, 580, 580, 580});
}

// One server, two workers, 1 byte a second. A worker sends gradients, loss, count and one number more, 588
// bytes, and gets weights and one number more, 580. With the last gradients in, the first worker has its
// weights after 580 s and its next gradients come from then on to 1168; those of the second, which has had
// its weights at 1160, come behind them, to 1756.
TEST(AgreementByHand, AServerTakesGradientsOneAfterAnother) {
  const SimReport report = run(R"({"mesh": "data:3", "exchange": "server"})", hosts(3, 1));
  EXPECT_NEAR(report.step_seconds, 1756, 1e-6);
  expect_bytes(report, {2 * 580, 588, 588});
}

// The same where each gradient makes an update. While weights go out, in 580 s, the next gradients come in,
// in 588: these decide.
TEST(AgreementByHand, AnAsynchronousServerHasItsGradientsComingInAllTheTime) {
  const SimReport report = run(R"({"mesh": "data:3", "exchange": "async_server"})", hosts(3, 1));
  EXPECT_NEAR(report.step_seconds, 2 * 588, 1e-6);
  expect_bytes(report, {2 * 580, 588, 588});
}

// Workers of 5 and 10 s over links that take no time. A server that waits for both makes a step in 10 s.
// Where each gradient makes an update, they make 3 in 10 s, and a step of two takes 6 2/3 s. A worker that
// may be two steps ahead is so after two steps, and then waits for the other as before.
TEST(AgreementByHand, ASlowWorkerHoldsUpThoseWhoWaitForIt) {
  const auto seconds = [](const char* exchange) {
    return run(fmt::format(R"({{"mesh": "data:3", "exchange": {}}})", exchange), hosts(3, 1e30),
               Computing::kFiveSeconds, {.slow = {{2, 2.0}}})
        .step_seconds;
  };
  EXPECT_NEAR(seconds(R"("server")"), 10, 1e-6);
  EXPECT_NEAR(seconds(R"({"method": "ssp", "staleness": 2})"), 10, 1e-6);
  EXPECT_NEAR(seconds(R"("async_server")"), 20.0 / 3, 0.05);
}

// Two ranks of 5 and 10 s that may be one step apart: the faster one is so after one step, and then waits.
TEST(AgreementByHand, WeightsThatMayBeOldDoNotMakeTheSlowestFaster) {
  const SimReport report = run(R"({"mesh": "data:2", "exchange": {"method": "d_psgd", "staleness": 1}})",
                               hosts(2, 1e30), Computing::kFiveSeconds, {.slow = {{1, 2.0}}});
  EXPECT_NEAR(report.step_seconds, 10, 1e-6);
  expect_bytes(report, {580, 580});
}

// Nobody waits: ranks of 5 and 12.5 s make steps of that length, together two in 2 / (1/5 + 1/12.5) s. α is 1
// s. Rank 0 asks behind step 1, at 5; that is there at 6 and is answered at 12.5, which it finds behind step
// 3, at 15, and asks again; the answer of 25 is there at 26 and found at 30. So it asks behind steps 1, 3, 6,
// 8, 11, 13, …: 12 times in its steps 9 to 40, which are counted. Rank 1 answers behind each of its own.
TEST(AgreementByHand, PairsDoNotWaitForEachOther) {
  const SimReport report = run(R"({"mesh": "data:2", "exchange": "ad_psgd"})", hosts(2, 1e30, 1),
                               Computing::kFiveSeconds, {.slow = {{1, 2.5}}});
  EXPECT_NEAR(report.ranks[0].time.end_seconds, 5, 1e-9);
  EXPECT_NEAR(report.ranks[1].time.end_seconds, 12.5, 1e-9);
  EXPECT_NEAR(report.step_seconds, 2 / (1 / 5.0 + 1 / 12.5), 1e-9);
  EXPECT_DOUBLE_EQ(report.ranks[0].time.bytes_sent, 580 * 12 / 32.0);
  EXPECT_DOUBLE_EQ(report.ranks[1].time.bytes_sent, 580);
}

// The order of arrivals is the plan's: without it there is none.
TEST(AgreementByHand, ArrivalsNeedAPlan) {
  const Plan plan = parse_plan(R"({"mesh": "data:3", "exchange": "server"})", "test");
  ModelOptions model;
  model.family = "mlp";
  model.layers = 1;
  model.classes = 8;
  TrainOptions train;
  train.batch = 2;
  train.clip_norm = 0;
  const StepPrograms programs(model, train, {}, {2, {1, 2, 4}}, plan);
  const Cluster cluster = hosts(3, 1);
  EXPECT_THAT(error_of([&] {
                simulate(DeviceMap(plan.mesh, cluster),
                         [&](int rank) { return programs.rank(rank, kNoWorkspace); });
              }),
              testing::HasSubstr("SimOptions::plan"));
}

}  // namespace
}  // namespace trireme::sim
