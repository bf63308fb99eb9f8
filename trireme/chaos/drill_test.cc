#include "trireme/chaos/drill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "trireme/base/error.h"

namespace trireme::chaos {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names_of(const std::vector<ChosenDrill>& drills) {
  std::vector<std::string> names;
  for (const ChosenDrill& one : drills) names.push_back(std::string(one.drill->name) + " " + one.transport);
  return names;
}

std::string refusal(const Choice& choice) {
  try {
    chosen(choice);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Drills, NamesAreTheirOwnAndNoneBeginsWithAnother) {
  for (const Drill& drill : drills()) {
    EXPECT_EQ(chosen({.only = {std::string(drill.name)}, .transport = "tcp"}).size(), 1u) << drill.name;
  }
}

TEST(Drills, HaveALimitWhereAFaultIsToBeNamed) {
  for (const Drill& drill : drills()) {
    EXPECT_TRUE(drill.expected != Expected::kNamed || drill.detection > 0) << drill.name;
    EXPECT_TRUE(drill.expected != Expected::kGoesOn || drill.steps_again > 0) << drill.name;
    EXPECT_GE(drill.ranks, 2) << drill.name;
  }
}

TEST(Drills, CoverEveryFaultAndPhase) {
  std::set<Fault> faults;
  std::set<Phase> phases;
  for (const Drill& drill : drills()) {
    faults.insert(drill.fault);
    phases.insert(drill.phase);
  }
  EXPECT_EQ(faults.size(), static_cast<size_t>(Fault::kStranger) + 1);
  EXPECT_EQ(phases.size(), static_cast<size_t>(Phase::kCheckpoint) + 1);
}

TEST(Drills, AreChosenByNameBeginningAndTransport) {
  EXPECT_THAT(names_of(chosen({.only = {"kill-step"}})), ElementsAre("kill-step shm", "kill-step tcp"));
  EXPECT_THAT(names_of(chosen({.only = {"stop", "partition"}, .transport = "tcp"})),
              ElementsAre("stop-step tcp", "stop-checkpoint tcp", "partition tcp"));
  EXPECT_THAT(names_of(chosen({.only = {"partition"}})), ElementsAre("partition tcp"));
}

TEST(Drills, AreMadeUnderEachPlan) {
  const auto drills = chosen({.only = {"kill-step"}, .transport = "shm", .plans = {"data", "zero1"}});
  ASSERT_EQ(drills.size(), 2u);
  EXPECT_EQ(drills[0].plan, "data");
  EXPECT_EQ(drills[1].plan, "zero1");
}

TEST(Drills, MayCostAsManySteps) {
  const auto cost = [](const std::string& plan) {
    return steps_a_loss_may_cost(
        chosen({.only = {"elastic-kill"}, .transport = "shm", .plans = {plan}}).front());
  };
  EXPECT_EQ(cost("zero3"), 1);
  EXPECT_EQ(cost(R"({"mesh": "data:4", "exchange": {"method": "d_psgd"}})"), 1);
  EXPECT_EQ(cost(R"({"mesh": "data:4", "exchange": {"method": "local", "steps": 4}})"), 4);
}

TEST(Drills, OfASoakAreThoseInWhichAJobGoesOn) {
  const auto drills = chosen({.transport = "shm", .soak_seconds = 9});
  EXPECT_THAT(names_of(drills), ElementsAre("elastic-kill shm", "elastic-stop shm"));
  EXPECT_EQ(drills[0].soak_seconds, 9);
  EXPECT_THAT(refusal({.only = {"kill-step"}, .soak_seconds = 9}), HasSubstr("choose from elastic-kill"));
}

TEST(Drills, OverTwoHostsAreOverTcp) {
  for (const ChosenDrill& one : chosen({.hosts = 2})) {
    EXPECT_EQ(one.transport, "tcp");
    EXPECT_TRUE(one.drill->over_hosts);
  }
}

TEST(Drills, RefuseWhatIsNoneAndWhatLeavesNone) {
  EXPECT_THAT(refusal({.only = {"kil-step"}}), HasSubstr("did you mean 'kill-step'?"));
  EXPECT_THAT(refusal({.only = {"partition"}, .transport = "shm"}), HasSubstr("do not go over shm"));
  EXPECT_THAT(refusal({.only = {"kill-start"}, .hosts = 2}), HasSubstr("do not go over two hosts"));
}

}  // namespace
}  // namespace trireme::chaos
