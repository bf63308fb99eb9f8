// The orders that schedules return, and what they refuse.
#include "trireme/schedule/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Accumulate, AddsMicrobatchesInOrderAndThenUpdates) {
  EXPECT_THAT(accumulate(3).step, ElementsAre(Action::run("first", 0), Action::run("next", 1),
                                              Action::run("next", 2), Action::run("update")));
  EXPECT_THAT(accumulate(1).step, ElementsAre(Action::run("first", 0), Action::run("update")));
  EXPECT_EQ(accumulate(3).microbatches, 3);
}

// Plays a rank's list with sums as text.
TEST(Shards, AreAddedUpInOneTreeWhateverTheShare) {
  const auto tree = [](const auto& self, int64_t begin, int64_t size) -> std::string {
    if (size == 1) return std::to_string(begin);
    return "(" + self(self, begin, size / 2) + "+" + self(self, begin + size / 2, size / 2) + ")";
  };
  for (const int ranks : {1, 2, 4, 8, 16}) {
    const Plan plan{.mesh = Mesh({{"data", ranks}})};
    const int64_t own = 16 / ranks;
    for (int rank = 0; rank < ranks; ++rank) {
      const Schedule schedule = shards(16, plan, rank);
      std::vector<std::string> waiting(6);
      std::string now;
      for (const Action& action : schedule.step) {
        if (action.what == "left") waiting[0] = std::to_string(action.microbatch);
        if (action.what == "first") now = std::to_string(action.microbatch);
        if (!action.what.starts_with("merge")) continue;
        const int levels = std::stoi(action.what.substr(5));
        for (int level = 0; level < levels; ++level) now = "(" + waiting[level] + "+" + now + ")";
        waiting[levels] = now;
      }
      EXPECT_EQ(now, tree(tree, rank * own, own));
      EXPECT_EQ(schedule.step.back(), Action::run("update"));
      EXPECT_EQ(schedule.own, own);
    }
  }
}

TEST(Shards, RefuseWhatWouldBreakThePromise) {
  const auto complaint = [](int64_t total, const std::string& mesh, const std::string& preset,
                            std::vector<std::pair<std::string, Layout>> layouts = {}) {
    try {
      shards(total, {parse_mesh(mesh), preset, std::move(layouts)}, 0);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(complaint(4, "data:4", "data"), "");
  EXPECT_THAT(complaint(4, "data:3", "data"), HasSubstr("can not be shared evenly by 3 ranks"));
  EXPECT_THAT(complaint(2, "data:4", "data"), HasSubstr("2 at most"));
  EXPECT_THAT(complaint(4, "data:2", "zero1"), HasSubstr("the plan is 'zero1'"));
  EXPECT_THAT(complaint(4, "data:2 tensor:2", "megatron"), HasSubstr("the plan is 'megatron'"));
  EXPECT_THAT(complaint(4, "data:2", "data", {{"wte.weight", {Placement::split(0)}}}),
              HasSubstr("with layouts of single values"));
}

}  // namespace
}  // namespace trireme
