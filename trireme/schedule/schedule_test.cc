// The orders that schedules return, and what they refuse.
#include "trireme/schedule/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/schedule/action_list.h"

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

TEST(When, IsReadAsItIsPrinted) {
  for (const char* text : {"step", "evaluate", "fill", "every 4", "every 4 first 2", "until 5", "asked meet",
                           "asked decode", "asked tell 3", "arrival from 0"})
    EXPECT_EQ(to_string(parse_when(text)), text);
  EXPECT_EQ(parse_when("every 4 first 4"), When::every(4));
  EXPECT_EQ(parse_when("arrival from 2"), When::arrival(2));
  for (const char* text :
       {"", "steps", "step 1", "every", "every 0", "every 4 from 2", "every 4 first 0", "until -1", "asked",
        "asked for", "asked tell", "asked meet 3", "arrival 3", "arrival from", "arrival from -1"})
    EXPECT_THAT([&] { parse_when(text); },
                testing::ThrowsMessage<Error>(HasSubstr("does not say when a list is run")))
        << text;
}

TEST(When, OfListsThatAreRunEverySoManySteps) {
  const When when = When::every(4, 2);
  EXPECT_EQ(when.last_run(1), 0);
  EXPECT_EQ(when.last_run(2), 2);
  EXPECT_EQ(when.last_run(9), 6);
  EXPECT_TRUE(when.is_due_after(6) && !when.is_due_after(7) && !when.is_due_after(0));
  EXPECT_FALSE(When::step().is_due_after(1) || When::until(3).is_due_after(3));
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
  EXPECT_THAT(complaint(4, "data:2", "zero1"), HasSubstr("data parallelism alone"));
  EXPECT_THAT(complaint(4, "data:2 tensor:2", "megatron"), HasSubstr("data parallelism alone"));
  EXPECT_THAT(complaint(4, "data:2", "data", {{"wte.weight", {Placement::split(0)}}}),
              HasSubstr("layouts that split tensors"));
}

}  // namespace
}  // namespace trireme
