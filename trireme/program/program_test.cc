// A program from graphs: states shared by name, one arena for segments that run one after the other.
#include "trireme/program/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/ir/text.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

size_t no_workspace(const Graph&, const Node&) {
  return 0;
}

Graph segment(std::string_view text) {
  return parse_graph(text, ops());
}

const char* const kFirst =
    "graph first\n"
    "state %w: f32[5] {init=\"normal\"}\n"
    "input %x: f32[5]\n"
    "%y: f32[5] = add(%x, %w)\n"
    "output y = %y\n";
const char* const kSecond =
    "graph second\n"
    "state %v: f32[100]\n"
    "state %w: f32[5]\n"
    "%a: f32[100] = neg(%v)\n"
    "%b: f32[5] = neg(%w)\n"
    "update %w <- %b\n"
    "output a = %a\n";

TEST(Program, StatesOfOneNameAreOneState) {
  const Program program = build_program({segment(kFirst), segment(kSecond)}, no_workspace);
  ASSERT_EQ(program.states.size(), 2u);
  const State* w = program.find_state("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ(w->attrs.text("init"), "normal") << "as first declared";
  EXPECT_EQ(program.find_state("none"), nullptr);
  for (const Segment& one : program.segments)
    EXPECT_EQ(one.memory.values[one.graph.find("w")].offset, w->offset);
  EXPECT_EQ(program.state_bytes, 64u + 448u) << "each slot is a multiple of 64 bytes";
}

TEST(Program, SegmentsShareTheArenaButNotTheirInputs) {
  const Program program = build_program({segment(kFirst), segment(kSecond)}, no_workspace);
  EXPECT_EQ(program.segment("first"), 0);
  EXPECT_EQ(program.segment("second"), 1);
  EXPECT_EQ(program.segment("third"), -1);
  EXPECT_EQ(program.arena_bytes, 448u) << "the larger of the two segments";
  EXPECT_EQ(program.input_bytes, 64u);
  EXPECT_EQ(program.peak_bytes(), program.state_bytes + program.arena_bytes + program.input_bytes);
}

TEST(Program, WorkspaceCountsTowardsTheArena) {
  const Program program = build_program({segment(kFirst)}, [](const Graph&, const Node& node) -> size_t {
    return node.op->name == "add" ? 1000 : 0;
  });
  EXPECT_EQ(program.arena_bytes, 64u + 1024u);
}

TEST(Program, RefusesAStateOfTwoTypes) {
  EXPECT_THAT(
      [] {
        build_program({segment(kFirst), segment("graph other\nstate %w: f32[6]\n")}, no_workspace);
      },
      ThrowsMessage<Error>(
          AllOf(HasSubstr("state %w is f32[6] in segment 'other'"), HasSubstr("f32[5] before"))));
}

}  // namespace
}  // namespace trireme
