// A runner does what the list says, in its order and on its slots.
#include "trireme/runtime/runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "trireme/base/error.h"
#include "trireme/comm/context.h"
#include "trireme/ir/text.h"
#include "trireme/ops/table.h"
#include "trireme/runtime/mesh_communicator.h"

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
    result.lists.push_back({"step", std::move(actions), When::step()});
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
  EXPECT_EQ(runner.update_turns(/*step=*/1).size(), 2u);
  std::vector<int64_t> before, after;
  runner.run(
      runner.turns(executor.program().list(When::step())),
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
              ThrowsMessage<Error>(HasSubstr("nothing to send it by")));
  Executor executor(program({}), *device_);
  EXPECT_THAT([&] { executor.program().list(When::evaluate()); },
              ThrowsMessage<Error>(HasSubstr("no list of actions for 'evaluate'")));
}

// Two ranks hand a state with two slots to and fro, eight times: what is sent is not written over before it
// has gone, and what is received not read before it has come.
TEST(RunnerMessages, ComeAndGoInOrder) {
  constexpr int kRounds = 8;
  const Mesh mesh = parse_mesh("pipe:2");
  comm::run_rank_threads(2, [&](comm::Context& context) {
    const std::unique_ptr<Device> device = make_cpu_device(1);
    MeshCommunicator communicator(mesh, context);
    const bool sends = context.rank() == 0;
    std::vector<Action> actions;
    for (int i = 0; i < kRounds; ++i) {
      if (sends) {
        actions.push_back(Action::run("make", i, i));
        actions.push_back(Action::send("a", 1, i));
      } else {
        actions.push_back(Action::receive("a", 0, i));
        actions.push_back(Action::run("take", i, i));
      }
    }
    std::vector<ActionList> lists = {{"step", actions, When::step()}};
    Program program =
        build_program({parse_graph(sends ? "graph make\nstate %a: f32[4096] stash\ninput %x: f32[4096]\n"
                                           "%b: f32[4096] = add(%x, %x)\nupdate %a <- %b\n"
                                         : "graph take\nstate %a: f32[4096] stash\nstate %sum: f32[4096]\n"
                                           "%b: f32[4096] = add(%a, %sum)\nupdate %sum <- %b\n",
                                   ops())},
                      workspace_query(*device), {}, {{"a", 2}}, lists);
    program.lists = std::move(lists);
    program.mesh = mesh;
    program.rank = context.rank();
    EXPECT_EQ(program.find_state("a")->offset, program.comm_from);
    Executor executor(std::move(program), *device, &communicator);
    std::vector<float> values(4096, 0);
    if (!sends) executor.write_state("sum", values.data(), values.size() * 4);
    Runner runner(executor);
    runner.run(
        runner.turns(executor.program().list(When::step())),
        [&](const Runner::Turn& turn) {
          if (!sends) return;
          std::ranges::fill(values, static_cast<float>(turn.action->microbatch + 1));
          executor.set_input(turn.segment, "x", values.data(), values.size() * 4);
        },
        [](const Runner::Turn&) {});
    if (sends) return;
    executor.read_state("sum", values.data(), values.size() * 4);
    EXPECT_THAT(values, testing::Each(kRounds * (kRounds + 1)));
  });
}

// A receive is begun and never awaited, and its message is sent when the executor is gone.
TEST(RunnerMessages, MayBeUnderWayWhenTheExecutorGoes) {
  const Mesh mesh = parse_mesh("pipe:2");
  comm::run_rank_threads(2, [&](comm::Context& context) {
    const std::unique_ptr<Device> device = make_cpu_device(1);
    MeshCommunicator communicator(mesh, context);
    const bool sends = context.rank() == 0;
    const std::byte* memory = nullptr;
    {
      std::vector<ActionList> lists = {
          {"step",
           {sends ? Action::send("a", 1) : Action::receive("a", 0), Action::run("take")},
           When::step()}};
      Program program =
          build_program({parse_graph("graph take\nstate %a: f32[100000] stash\nstate %sum: f32[100000]\n"
                                     "%b: f32[100000] = add(%a, %sum)\nupdate %sum <- %b\n",
                                     ops())},
                        workspace_query(*device), {}, {}, lists);
      program.lists = std::move(lists);
      program.mesh = mesh;
      program.rank = context.rank();
      Executor executor(std::move(program), *device, &communicator);
      memory = executor.slot_memory(*executor.program().find_state("a"), 0);
      const std::vector<float> values(100000, 3);
      if (sends) executor.write_state("a", values.data(), values.size() * 4);
      if (sends) context.world().barrier().wait();  // until the other executor is gone
      Runner runner(executor);
      runner.run(
          runner.turns(executor.program().list(When::step())).first(1), [](const Runner::Turn&) {},
          [](const Runner::Turn&) {});
    }
    if (sends) return;
    context.world().barrier().wait();
    float last = 0;
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (last != 3 && std::chrono::steady_clock::now() < give_up) {
      communicator.progress();
      std::memcpy(&last, memory + 99999 * sizeof last, sizeof last);
    }
    EXPECT_EQ(last, 3);
  });
}

// A sum that one list begins goes on while others are run, until a list awaits it; one that nobody awaits
// goes on when its executor is gone.
TEST(RunnerSums, GoOnBetweenLists) {
  const Mesh mesh = parse_mesh("data:3");
  const When fly = When::every(2, 1), land = When::every(2);
  comm::run_rank_threads(3, [&](comm::Context& context) {
    const std::unique_ptr<Device> device = make_cpu_device(1);
    MeshCommunicator communicator(mesh, context);
    std::vector<ActionList> lists = {{"step", {Action::run("double")}, When::step()},
                                     {"fly", {Action::reduce("sum", 1)}, fly},
                                     {"land", {Action::await("sum", 1), Action::run("take", 0, 1)}, land}};
    Program program = build_program(
        {{parse_graph("graph double\nstate %a: f32[100]\n%b: f32[100] = add(%a, %a)\nupdate %a <- %b\n",
                      ops()),
          SegmentKind::kUpdate},
         {parse_graph("graph take\nstate %a: f32[100]\nstate %sum: f32[100] message\n"
                      "%b: f32[100] = add(%a, %sum)\nupdate %a <- %b\n",
                      ops()),
          SegmentKind::kUpdate}},
        workspace_query(*device), {}, {{"sum", 2}}, lists);
    program.lists = std::move(lists);
    program.mesh = mesh;
    program.rank = context.rank();
    Executor executor(std::move(program), *device, &communicator);
    const State& sum = *executor.program().find_state("sum");
    std::vector<float> values(100, 1);
    executor.write_state("a", values.data(), 400);
    std::ranges::fill(values, static_cast<float>(context.rank() + 1));
    executor.write_state("sum", sum.stride(), values.data(), 400);
    Runner runner(executor);
    const auto run = [&](const When& when) {
      runner.run(
          runner.turns(executor.program().list(when)), [](const Runner::Turn&) {},
          [](const Runner::Turn&) {});
    };
    for (const When& when : {fly, When::step(), When::step(), land}) run(when);
    executor.read_state("a", values.data(), 400);
    EXPECT_THAT(values, testing::Each(4 + 6));
    run(fly);
  });
}

}  // namespace
}  // namespace trireme
