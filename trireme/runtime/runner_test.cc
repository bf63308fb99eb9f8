// A runner does what the list says, in its order and on its slots.
#include "trireme/runtime/runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/ir/text.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

const char* const kAdd =
    "graph add\nstate %a: f32[1]\ninput %x: f32[1]\n%b: f32[1] = add(%a, %x)\nupdate %a <- %b\n";
const char* const kDouble = "graph double\nstate %a: f32[1]\n%b: f32[1] = add(%a, %a)\nupdate %a <- %b\n";

class RunnerTest : public testing::Test {
 protected:
  Program program(std::vector<Action> actions) const {
    Program result =
        build_program({parse_graph(kAdd, ops()), {parse_graph(kDouble, ops()), SegmentKind::kUpdate}},
                      workspace_query(*device_), {}, {{"a", 2}});
    result.lists.push_back({"step", std::move(actions), 0, {}, 1});
    return result;
  }

  std::unique_ptr<Device> device_ = make_cpu_device(1);
};

TEST_F(RunnerTest, FollowsTheList) {
  Executor executor(program({Action::run("add", 3, 1), Action::run("add", 4, 0), Action::run("double", 0, 1),
                             Action::run("add", 5, 1)}),
                    *device_);
  const State& a = *executor.program().find_state("a");
  const float zero = 0;
  executor.write_state("a", 0, &zero, 4);
  executor.write_state("a", a.stride(), &zero, 4);
  Runner runner(executor);
  EXPECT_EQ(runner.gradient_turns().size(), 2u);
  EXPECT_EQ(runner.update_turns().size(), 2u);
  std::vector<int64_t> before, after;
  runner.run(
      runner.turns("step"),
      [&](const Runner::Turn& turn) {
        before.push_back(turn.action->microbatch);
        const float x = static_cast<float>(turn.action->microbatch);
        if (turn.action->what == "add") executor.set_input(turn.segment, "x", &x, 4);
      },
      [&](const Runner::Turn& turn) { after.push_back(turn.action->microbatch); });
  EXPECT_THAT(before, ElementsAre(3, 4, 0, 5));
  EXPECT_EQ(after, before);
  float first = 0, second = 0;
  executor.read_state("a", 0, &first, 4);
  executor.read_state("a", a.stride(), &second, 4);
  EXPECT_EQ(first, 4);
  EXPECT_EQ(second, 3 * 2 + 5);
}

TEST_F(RunnerTest, RefusesWhatItCanNotRun) {
  const auto refusal = [&](Action action) {
    Executor executor(program({std::move(action)}), *device_);
    Runner runner(executor);
  };
  EXPECT_THAT([&] { refusal(Action::run("ad")); },
              ThrowsMessage<Error>(HasSubstr("the segment 'ad', which")));
  EXPECT_THAT([&] { refusal(Action::send("a", 1)); },
              ThrowsMessage<Error>(HasSubstr("messages can not be run yet")));
  Executor executor(program({}), *device_);
  EXPECT_THAT([&] { Runner(executor).turns("evaluate"); },
              ThrowsMessage<Error>(HasSubstr("no list of actions 'evaluate'")));
}

}  // namespace
}  // namespace trireme
