// Which dim ZeRO splits, over shapes that divide and shapes that do not.
#include "trireme/passes/pins.h"

#include <gtest/gtest.h>

#include <set>

#include "trireme/ir/builder.h"
#include "trireme/ops/table.h"

namespace trireme {
namespace {

// How zero3 lets a parameter of this shape lie at rest on four ranks.
std::string at_rest(const Shape& shape, const Attrs& attrs = {}, const std::string& plan_json = R"({
    "mesh": "data:4", "preset": "zero3"})") {
  Builder b(ops(), "first");
  b.state("w", {DType::f32, shape}, Role::kParameter, attrs);
  const Plan plan = parse_plan(plan_json, "test");
  return to_string(
      pins_of(plan, b.take(), SegmentKind::kForwardBackward, Microbatches::kOne).states.at("w").rest,
      plan.mesh);
}

TEST(Pins, ZeroSplitsTheFirstDimThatDivides) {
  EXPECT_EQ(at_rest({8, 16}), "{data:0}");
  EXPECT_EQ(at_rest({6, 8}), "{data:1}");
  EXPECT_EQ(at_rest({10, 6, 4}), "{data:2}");
}

TEST(Pins, ZeroSplitsTheLargestDimWhereNoneDivides) {
  EXPECT_EQ(at_rest({6, 10}), "{data:1}");
  EXPECT_EQ(at_rest({10, 6}), "{data:0}");
  EXPECT_EQ(at_rest({5, 11, 7}), "{data:1}");
  EXPECT_EQ(at_rest({6, 6}), "{data:0}");  // the first of equals
}

TEST(Pins, ZeroSplitsOnlyWhatGivesEachRankSomething) {
  EXPECT_EQ(at_rest({3, 5}), "{data:1}");
  EXPECT_EQ(at_rest({3, 2}), "{}");
  EXPECT_EQ(at_rest({}), "{}");
}

// A dim that tensor parallelism cuts is taken only where both divide it, and never unevenly.
TEST(Pins, ZeroLeavesADimThatAnotherAxisCuts) {
  const std::string both = R"({"mesh": "data:2 tensor:2", "preset": "megatron+zero3"})";
  const Attrs by_columns{{"tensor_dim", int64_t{1}}};
  EXPECT_EQ(at_rest({8, 8}, by_columns, both), "{data:0 tensor:1}");
  EXPECT_EQ(at_rest({5, 8}, by_columns, both), "{data:1 tensor:1}");
  EXPECT_EQ(at_rest({5, 14}, by_columns, both), "{data:0 tensor:1}");
  EXPECT_EQ(at_rest({1, 14}, by_columns, both), "{tensor:1}");
}

// Those of a rank along data are a block, whichever axis comes first; experts are whole along data.
TEST(Pins, NeighboursAlongExpertShareTheRowsOfABlock) {
  for (const char* mesh : {"data:2 expert:2", "expert:2 data:2"}) {
    const Plan plan = parse_plan(fmt::format(R"({{"mesh": "{}", "preset": "expert"}})", mesh), "test");
    for (int rank = 0; rank < 4; ++rank) {
      const int data = plan.mesh.coordinate(rank, plan.mesh.axis("data")),
                expert = plan.mesh.coordinate(rank, plan.mesh.axis("expert"));
      EXPECT_EQ(batch_rows(plan, 8, rank), (Part{4 * data + 2 * expert, 2})) << mesh;
    }
  }
  const Attrs experts{{"expert_dim", int64_t{0}}};
  const std::string both = R"({"mesh": "data:2 expert:2", "preset": "expert+zero3"})";
  EXPECT_EQ(at_rest({4, 8, 8}, experts, both), "{data:1 expert:0}");
  EXPECT_EQ(at_rest({8, 8}, {}, both), "{data:0}");
}

// A plan may use an axis expert in its layouts alone.
TEST(Pins, RowsLieAlikeAlongAnAxisExpertThatThePresetDoesNotUse) {
  const Plan plan =
      parse_plan(R"({"mesh": "data:3 expert:2", "preset": "zero2", "layouts": {"w": "expert:0"}})", "test");
  Builder b(ops(), "first");
  b.input("ids", {DType::i32, {12, 8}}, Role::kBatch);
  const Pins pins = pins_of(plan, b.take(), SegmentKind::kForwardBackward, Microbatches::kOne);
  EXPECT_EQ(pins.values.at("ids").at(plan.mesh.axis("expert")), Placement());
}

// How a gradient of this shape lies between the parts of a step of so many microbatches.
std::string gradient_at_rest(const std::string& plan_json, Microbatches microbatches,
                             const Shape& shape = {8, 16}) {
  Builder b(ops(), "first");
  b.state("w", {DType::f32, shape}, Role::kParameter);
  b.state("grad.w", {DType::f32, shape}, Role::kGradient, {{"of", "w"}});
  const Plan plan = parse_plan(plan_json, "test");
  return to_string(
      pins_of(plan, b.take(), SegmentKind::kForwardBackward, microbatches).states.at("grad.w").rest,
      plan.mesh);
}

// ZeRO splits over data alone; sums over replicas wait for the update where there are several microbatches,
// or an exchange takes their place.
TEST(Pins, ZeroSplitsInsideAReplica) {
  const auto with = [](const char* preset, const char* exchange = R"("all_reduce")") {
    return fmt::format(R"({{"mesh": "replica:2 data:2", "preset": "{}", "exchange": {}}})", preset, exchange);
  };
  using enum Microbatches;
  EXPECT_EQ(at_rest({8, 16}, {}, with("zero3")), "{data:0}");
  EXPECT_EQ(gradient_at_rest(with("zero2"), kOne), "{data:0}");
  EXPECT_EQ(gradient_at_rest(with("zero2"), kSeveral), "{replica:sum data:0}");
  EXPECT_EQ(gradient_at_rest(with("zero1"), kSeveral), "{replica:sum data:sum}");
  EXPECT_EQ(gradient_at_rest(with("zero2"), kSeveral, {1}), "{replica:sum data:sum}");
  for (const char* exchange : {R"("diloco")", R"("top_k")"}) {
    EXPECT_EQ(gradient_at_rest(with("data", exchange), kOne), "{replica:sum}");
    EXPECT_EQ(gradient_at_rest(with("zero1", exchange), kOne), "{replica:sum data:0}");
  }
  EXPECT_EQ(gradient_at_rest(with("zero1", R"("diloco")"), kSeveral), "{replica:sum data:sum}");
  EXPECT_EQ(gradient_at_rest(with("zero1", R"("top_k")"), kSeveral), "{replica:sum data:0}");
}

TEST(Pins, ReplicasShareTheBatch) {
  const Plan plan = parse_plan(R"({"mesh": "replica:2 data:2", "preset": "zero1"})", "test");
  EXPECT_EQ(batch_parts(plan), 4);
  EXPECT_FALSE(others_share_batch(plan));
  std::set<int64_t> first_rows;
  for (int rank = 0; rank < 4; ++rank) {
    const Part rows = batch_rows(plan, 8, rank);
    EXPECT_EQ(rows.size, 2);
    first_rows.insert(rows.begin);
  }
  EXPECT_EQ(first_rows, (std::set<int64_t>{0, 2, 4, 6}));
}

// As wide as leaves no rank with more than 3 % over the mean under a causal mask.
TEST(Pins, SequencesAreDealtOutInStripes) {
  const auto layout = [](const char* preset, int ranks, int64_t tokens) {
    Builder b(ops(), "first");
    b.input("ids", {DType::i32, {4, tokens}}, Role::kBatch);
    const Plan plan =
        parse_plan(fmt::format(R"({{"mesh": "context:{}", "preset": "{}"}})", ranks, preset), "test");
    const Pins pins = pins_of(plan, b.take(), SegmentKind::kForwardBackward, Microbatches::kOne);
    return to_string(pins.states.at("ids").use, plan.mesh);
  };
  EXPECT_EQ(layout("context", 8, 16384), "{context:1}");
  EXPECT_EQ(layout("context+striped", 8, 16384), "{context:1x32}");
  EXPECT_EQ(layout("ring", 8, 16384), "{context:1x32}");
  EXPECT_EQ(layout("ring", 2, 16384), "{context:1x32}");
  EXPECT_EQ(layout("ring", 2, 60), "{context:1x30}");
  EXPECT_EQ(layout("ring", 2, 16), "{context:1x8}") << "stripes of one token";
}

}  // namespace
}  // namespace trireme
