#include "trireme/program/file_turns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/ir/builder.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

using testing::ElementsAre;

const TensorType kType{DType::f32, {4}};

// Makes `made` of `read`; without one, of an input.
StepSegment segment(const char* name, const char* read, const char* made) {
  Builder b(ops(), name);
  const ValueId from = *read ? b.state(read, kType, Role::kStash) : b.input("x", kType, Role::kNone);
  const ValueId result = b.op("affine", {from}, {{"scale", 2.0}});
  if (*made)
    b.update(std::string_view(read) == made ? from : b.state(made, kType, Role::kStash), result);
  else
    b.output("y", result);
  return {b.take(), SegmentKind::kForwardBackward};
}

std::vector<std::string> texts(const std::vector<Action>& actions) {
  std::vector<std::string> result;
  for (const Action& action : actions)
    result.push_back((action.kind == Action::Kind::kRun     ? ""
                      : action.kind == Action::Kind::kFetch ? "<"
                                                            : ">") +
                     action.what);
  return result;
}

// `a` and `b` take one slot in turn, `c` has one of its own.
TEST(FileTurns, FetchWhenASlotIsFreeAndStoreWhatWasRenewed) {
  std::vector<StepSegment> segments;
  segments.push_back(segment("make_a", "", "a"));
  segments.push_back(segment("add_a", "a", "a"));
  segments.push_back(segment("rest", "", ""));
  segments.push_back(segment("read_b", "b", ""));
  segments.push_back(segment("read_c", "c", ""));
  const Program program = build_program(std::move(segments), [](const Graph&, const Node&) { return 0; }, {},
                                        {}, {}, {{"A", {"a"}, 0}, {"B", {"b"}, 0}, {"C", {"c"}, 1}});
  const auto turns = [&](const std::vector<const char*>& runs) {
    std::vector<Action> actions;
    for (const char* run : runs) actions.push_back(Action::run(run));
    return texts(with_file_turns(program, actions));
  };
  // What is made anew need not be fetched; it stays until another needs the slot, which comes a run later.
  EXPECT_THAT(turns({"make_a", "add_a", "rest", "rest", "read_b", "read_c"}),
              ElementsAre("<C", "make_a", "add_a", ">A", "rest", "<B", "rest", "read_b", "read_c"));
  EXPECT_EQ(
      file_bytes_moved(program, with_file_turns(program, {Action::run("add_a"), Action::run("read_b")})),
      3 * static_cast<double>(program.groups[0].bytes));  // in and out, and another in
  // What is only read need not be stored, and leaves its slot at once.
  EXPECT_THAT(turns({"read_b", "rest", "add_a", "read_b"}),
              ElementsAre("<B", "read_b", "<A", "rest", "add_a", ">A", "<B", "read_b"));
}

}  // namespace
}  // namespace trireme
