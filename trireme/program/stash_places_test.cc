// What stashes take, by when lists make and read them, worked out on paper; and that the verifier plays it.
#include "trireme/program/stash_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "trireme/base/error.h"
#include "trireme/ir/text.h"
#include "trireme/ops/table.h"
#include "trireme/program/verify.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;

// A chunk that keeps 64 bytes from its forward part to its backward part, which leaves `floats` values for
// its weights.
std::vector<StepSegment> chunk(const std::string& name, int floats = 16) {
  const auto graph = [&](const std::string& text) { return StepSegment(parse_graph(text, ops())); };
  const std::string x = "state %stash." + name + "/x: f32[16] stash\n",
                    g = fmt::format("state %stash.{}/g: f32[{}] stash\n", name, floats);
  const std::string made = floats == 16 ? fmt::format("%g: f32[16] = neg(%stash.{}/x)\n", name)
                                        : fmt::format(
                                              "%s: f32[] = sum(%stash.{}/x) {{dims=[0]}}\n"
                                              "%g: f32[{}] = broadcast(%s) {{shape=[{}], dims=[]}}\n",
                                              name, floats, floats);
  return {
      graph("graph first." + name + ".forward\n" + x +
            "input %in: f32[16]\n%y: f32[16] = neg(%in)\nupdate %stash." + name + "/x <- %y\n"),
      graph("graph first." + name + ".backward\n" + x + g + made + "update %stash." + name + "/g <- %g\n"),
      graph(fmt::format("graph first.{0}.weight\n{1}state %sum.{0}: f32[{2}] gradient\n"
                        "%s: f32[{2}] = neg(%stash.{0}/g)\nupdate %sum.{0} <- %s\n",
                        name, g, floats))};
}

// "a.forward 2" runs chunk a's forward part on microbatch 2.
ActionList list_of(const std::vector<std::pair<std::string, int>>& runs, int64_t microbatches) {
  ActionList list{"step", {}, When::step()};
  list.microbatches = microbatches;
  for (const auto& [piece, microbatch] : runs)
    list.actions.push_back(Action::run("first." + piece, microbatch, microbatch));
  return list;
}

Program program_of(std::vector<StepSegment> segments, const ActionList& list) {
  return build_program(std::move(segments), kNoWorkspace, {}, {}, {list});
}

size_t stash_bytes(const Program& program) {
  return state_bytes_by_role(program).at(Role::kStash);
}

// While the second microbatch's activation is there, the first one's gradient takes the place of its own.
TEST(StashPlaces, WhatTheBackwardPartLeavesTakesThePlaceOfWhatItReads) {
  const ActionList list = list_of({{"a.forward", 0},
                                   {"a.forward", 1},
                                   {"a.backward", 0},
                                   {"a.backward", 1},
                                   {"a.weight", 0},
                                   {"a.weight", 1}},
                                  2);
  const Program program = program_of(chunk("a"), list);
  EXPECT_NO_THROW(verify(program));
  EXPECT_EQ(stash_bytes(program), 2u * 64);
  for (int slot = 0; slot < 2; ++slot)
    EXPECT_EQ(program.find_state("stash.a/x")->place(slot), program.find_state("stash.a/g")->place(slot));
  EXPECT_EQ(program.arena_bytes, 0u) << "nothing is copied into its place";
}

TEST(StashPlaces, ChunksThatDoNotMeetShareMemory) {
  std::vector<StepSegment> segments = chunk("a");
  for (StepSegment& segment : chunk("b")) segments.push_back(std::move(segment));
  const ActionList list = list_of({{"a.forward", 0},
                                   {"a.backward", 0},
                                   {"a.weight", 0},
                                   {"b.forward", 0},
                                   {"b.backward", 0},
                                   {"b.weight", 0}},
                                  1);
  const Program program = program_of(segments, list);
  EXPECT_NO_THROW(verify(program));
  EXPECT_EQ(stash_bytes(program), 64u);
}

// Four activations of 64 bytes, and the 1,024 bytes of one microbatch's gradient at a time: a frame for both,
// from the forward part on, would take 4,096.
TEST(StashPlaces, WhatLivesShortlyIsNotKeptFromTheForwardPartOn) {
  std::vector<std::pair<std::string, int>> runs;
  for (int m = 0; m < 4; ++m) runs.emplace_back("a.forward", m);
  for (int m = 0; m < 4; ++m) {
    runs.emplace_back("a.backward", m);
    runs.emplace_back("a.weight", m);
  }
  const Program program = program_of(chunk("a", 256), list_of(runs, 4));
  EXPECT_NO_THROW(verify(program));
  EXPECT_EQ(stash_bytes(program), 4u * 64 + 1024);
}

// One forward and one backward in turn, three microbatches under way, of a thousand: three places.
TEST(StashPlaces, AreNoMoreThanMicrobatchesUnderWay) {
  std::vector<std::pair<std::string, int>> runs = {{"a.forward", 0}, {"a.forward", 1}};
  for (int m = 0; m < 1000; ++m) {
    if (m + 2 < 1000) runs.emplace_back("a.forward", m + 2);
    runs.emplace_back("a.backward", m);
    runs.emplace_back("a.weight", m);
  }
  const Program program = program_of(chunk("a"), list_of(runs, 1000));
  EXPECT_NO_THROW(verify(program));
  EXPECT_EQ(program.find_state("stash.a/x")->slots, 3);
  EXPECT_EQ(stash_bytes(program), 3u * 64);
}

// A segment's memory is planned with the first places of its states. Chunk b has the odd microbatches alone;
// still the first places of what it makes and of what it reads, of other microbatches on chunk a, lie apart.
TEST(StashPlaces, OfOneSegmentLieApartEvenWhereItNeverRuns) {
  const auto graph = [&](const std::string& text) { return StepSegment(parse_graph(text, ops())); };
  const std::string x = "state %stash.a/x: f32[16] stash\n", y = "state %stash.b/y: f32[16] stash\n",
                    in = "input %in: f32[16]\n%v: f32[16] = neg(%in)\n",
                    sum = "state %sum: f32[16] gradient\n";
  const auto make = [&](const std::string& name, const std::string& state, const std::string& to) {
    return graph("graph first." + name + "\n" + state + in + "update %" + to + " <- %v\n");
  };
  const auto read = [&](const std::string& name, const std::string& state, const std::string& from) {
    return graph("graph first." + name + "\n" + state + sum + "%s: f32[16] = neg(%" + from +
                 ")\nupdate %sum <- %s\n");
  };
  std::vector<StepSegment> segments = {
      make("a.x", x, "stash.a/x"), read("a.dx", x, "stash.a/x"), make("a.y", y, "stash.b/y"),
      read("a.dy", y, "stash.b/y"),
      graph("graph first.b.both\n" + x + y + sum +
            "%s: f32[16] = add(%stash.a/x, %stash.b/y)\nupdate %sum <- %s\n")};
  const Program program = program_of(
      segments,
      list_of({{"a.x", 0}, {"a.dx", 0}, {"a.y", 0}, {"a.dy", 0}, {"a.x", 1}, {"a.y", 1}, {"b.both", 1}}, 2));
  EXPECT_NO_THROW(verify(program));
  EXPECT_NE(program.find_state("stash.a/x")->offset, program.find_state("stash.b/y")->offset);
}

TEST(StashPlaces, TheVerifierFindsStashesThatMeet) {
  const ActionList list = list_of({{"a.forward", 0},
                                   {"a.forward", 1},
                                   {"a.backward", 0},
                                   {"a.weight", 0},
                                   {"a.backward", 1},
                                   {"a.weight", 1}},
                                  2);
  const Program program = program_of(chunk("a"), list);
  Program broken = program;
  for (State& state : broken.states) {
    if (state.name == "stash.a/x") state.places[1] = state.places[0];
  }
  EXPECT_THAT(error_of([&] { verify(broken); }),
              HasSubstr("another stash has taken the memory of %stash.a/x"));
  broken = program;
  for (State& state : broken.states) {
    if (state.name == "stash.a/x") state.places[1] = broken.state_bytes;
  }
  EXPECT_THAT(error_of([&] { verify(broken); }), HasSubstr("a slot of the state %stash.a/x lies from"));
}

}  // namespace
}  // namespace trireme
