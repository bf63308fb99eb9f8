// Ranks stop behind the same step, whichever of them was asked to, and when.
#include "trireme/run/stop_agreement.h"

#include <gtest/gtest.h>

#include <array>

#include "trireme/comm/context.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme {
namespace {

constexpr int64_t kLast = 40;

// Behind which step each rank stops when one of them is asked to behind step `asked_at`, counted from 1.
std::array<int64_t, 2> stops(const char* plan_text, int asked, int64_t asked_at) {
  const Plan plan = parse_plan(plan_text, "the plan");
  std::array<int64_t, 2> result{};
  comm::run_rank_threads(2, [&](comm::Context& context) {
    ModelOptions model;
    model.family = "mlp";
    model.layers = 1;
    model.classes = 2;
    MeshCommunicator communicator(plan.mesh, context);
    const RankOptions ranks{plan, context.rank(), &communicator};
    const std::unique_ptr<Device> device = make_cpu_device(1);
    const Trainer trainer(model, {}, {}, {4, {1, 2, 2}}, *device, ranks);
    std::atomic<bool> stop = false;
    StopAgreement agreement(ranks, trainer, &stop);
    for (int64_t step = 1; step <= kLast; ++step) {
      if (context.rank() == asked && step == asked_at) stop = true;
      if (agreement.agreed_after(step) == StopReason::kNone) continue;
      result[static_cast<size_t>(context.rank())] = step;
      break;
    }
  });
  return result;
}

using Both = std::array<int64_t, 2>;

TEST(StopAgreement, IsAtOnceWhereRanksHearOfEachOtherInEveryStep) {
  for (const int asked : {0, 1}) {
    for (const int64_t step : {1, 7})
      EXPECT_EQ(stops(R"({"mesh": "data:2"})", asked, step), (Both{step, step}));
  }
}

TEST(StopAgreement, ASignalCountsMoreThanMakingRoom) {
  ModelOptions model;
  model.family = "mlp";
  model.layers = 1;
  model.classes = 2;
  const RankOptions alone;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const Trainer trainer(model, {}, {}, {4, {1, 2, 2}}, *device, alone);
  std::atomic<bool> stop = false, regroup = false;
  const auto never = StopAgreement::Clock::time_point::max();
  StopAgreement agreement(alone, trainer, &stop, never, &regroup);
  EXPECT_EQ(agreement.agreed_after(1), StopReason::kNone);
  regroup = true;
  EXPECT_EQ(agreement.agreed_after(2), StopReason::kRegroup);
  stop = true;
  EXPECT_EQ(agreement.agreed_after(3), StopReason::kAsked);
}

TEST(StopAgreement, WaitsForTheStepInWhichRanksAgree) {
  const char* const plan = R"({"mesh": "data:2", "exchange": {"method": "local", "steps": 5}})";
  EXPECT_EQ(stops(plan, 1, 5), (Both{5, 5}));
  EXPECT_EQ(stops(plan, 1, 6), (Both{10, 10}));
}

// What is said behind steps 3, 6, 9, … is heard three steps later.
TEST(StopAgreement, TakesAsLongAsWhatIsDelayed) {
  const char* const plan = R"({"mesh": "data:2", "exchange": {"method": "delayed", "delay": 3}})";
  for (const int asked : {0, 1}) {
    EXPECT_EQ(stops(plan, asked, 1), (Both{6, 6}));
    EXPECT_EQ(stops(plan, asked, 3), (Both{6, 6}));
    EXPECT_EQ(stops(plan, asked, 4), (Both{9, 9}));
    EXPECT_EQ(stops(plan, asked, 20), (Both{24, 24}));
  }
}

// Nobody waits for a word that nobody needs.
TEST(StopAgreement, OfARunThatIsNotStoppedIsNever) {
  for (const char* plan :
       {R"({"mesh": "data:2"})", R"({"mesh": "data:2", "exchange": {"method": "delayed", "delay": 3}})"})
    EXPECT_EQ(stops(plan, 0, kLast + 1), (Both{0, 0})) << plan;
}

}  // namespace
}  // namespace trireme
