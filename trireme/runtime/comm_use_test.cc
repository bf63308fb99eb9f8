// What a program tells of whom its rank speaks with, and how ranks on devices may be linked.
#include "trireme/runtime/comm_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "trireme/ir/text.h"
#include "trireme/ops/table.h"
#include "trireme/runtime/device.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Way = CommUse::Way;

Program program_with(const std::string& nodes) {
  Program program;
  program.rank = 1;
  program.segments.push_back({.graph = parse_graph("graph g\ninput %x: f32[4] batch\n" + nodes, ops())});
  return program;
}

TEST(CommUse, GroupsAndWaysAreSortedAndThereOnce) {
  Program program = program_with(
      "%a: f32[4] = all_reduce(%x) {axis=\"tensor\", reduction=\"sum\", ways=2, coordinate=0}\n"
      "%b: f32[4] = all_reduce(%a) {axis=\"data\", reduction=\"sum\", ways=2, coordinate=0}\n"
      "%c: f32[4] = all_reduce(%b) {axis=\"tensor\", reduction=\"sum\", ways=2, coordinate=0}\n"
      "output c = %c\n");
  program.lists.push_back({.name = "step",
                           .actions = {Action::receive("in", 0), Action::run("g"), Action::send("out", 2),
                                       Action::send("back", 0), Action::receive("in", 0, 1)}});
  program.lists.push_back(
      {.name = "evaluate", .actions = {Action::receive("in", 3)}, .when = When::evaluate()});
  const CommUse use = comm_use(program);
  EXPECT_EQ(use.rank, 1);
  EXPECT_THAT(use.groups, ElementsAre("data", "tensor"));
  EXPECT_THAT(use.ways, ElementsAre(Way{0, 1}, Way{1, 0}, Way{1, 2}, Way{3, 1}));
}

TEST(CommUse, SumsThatListsBeginAreCollectivesToo) {
  Program program = program_with("%a: f32[4] = relu(%x)\noutput a = %a\n");
  program.lists.push_back({.name = "late", .actions = {Action::reduce("sum")}, .when = When::every(1)});
  EXPECT_THAT(comm_use(program).groups, ElementsAre("data"));
}

TEST(CommUse, OneRankSpeaksWithNobody) {
  const CommUse use = comm_use(program_with("%a: f32[4] = relu(%x)\noutput a = %a\n"));
  EXPECT_TRUE(use.groups.empty() && use.ways.empty());
}

TEST(DeviceLinks, NcclIsForGpus) {
  EXPECT_THAT(error_of([] { check_links("cpu", comm::DeviceLinks::nccl); }),
              HasSubstr("train.device is cpu: set train.device=cuda"));
  EXPECT_THAT(error_of([] { make_device({.links = comm::DeviceLinks::nccl}); }),
              HasSubstr("--transport nccl"));
  EXPECT_EQ(error_of([] { check_links("cuda", comm::DeviceLinks::through_host); }), "no error");
}

}  // namespace
}  // namespace trireme
