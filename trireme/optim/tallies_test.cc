// The use of experts in numbers worked out by hand, and what becomes of a bias.
#include "trireme/optim/tallies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/error_of.h"
#include "trireme/ir/trained.h"
#include "trireme/ops/table.h"
#include "trireme/runtime/executor.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::FloatEq;

class ExpertTallies : public testing::Test {
 protected:
  ExpertTallies() {
    const auto sum = [](OutputRole role, const Shape& shape) {
      Value state{tally_state_name(tally_name(role, "h.0.mlp")), {DType::f32, shape}, Value::Kind::kState};
      state.role = Role::kGradient;
      state.attrs = {{std::string(kTallies), std::string(name(role))}, {"layer", "h.0.mlp"}};
      return state;
    };
    Value bias{"bias", {DType::f32, {4}}, Value::Kind::kState};
    bias.role = Role::kBuffer;
    bias.attrs = {{std::string(kBalances), "h.0.mlp"}, {std::string(kBalanceRate), 0.25}};
    Builder b(ops(), "update");
    const ValueId scale = b.input("scale", {DType::f32, {}}, Role::kScalar);
    add_tallies(b,
                {{sum(OutputRole::kObjective, {}), sum(OutputRole::kLoad, {4}), sum(OutputRole::kDropped, {}),
                  sum(OutputRole::kImportance, {4})},
                 {bias}},
                scale);
    executor_ = std::make_unique<Executor>(build_program({b.take()}, workspace_query(*device_)), *device_);
    set("accumulated.objective.h.0.mlp", {5});
    set("accumulated.load.h.0.mlp", {4, 2, 0, 2});
    set("accumulated.dropped.h.0.mlp", {2});
    set("accumulated.importance.h.0.mlp", {2, 2, 0, 0});
    set("bias", {1, 1, 1, 1});
  }
  void set(const std::string& state, const std::vector<float>& values) {
    executor_->write_state(state, values.data(), values.size() * sizeof(float));
  }
  std::vector<float> run(float scale) {
    executor_->set_input(0, "scale", &scale, sizeof scale);
    executor_->run(0);
    std::vector<float> bias(4);
    executor_->read_state("bias", bias.data(), bias.size() * sizeof(float));
    return bias;
  }

  std::unique_ptr<Device> device_ = make_cpu_device(1);
  std::unique_ptr<Executor> executor_;
};

TEST_F(ExpertTallies, AreNumbersOfALayer) {
  run(1);
  EXPECT_THAT(layers_with_experts(executor_->program().segments[0].graph), ElementsAre("h.0.mlp"));
  std::vector<float> numbers;
  for (const std::string& output : expert_use_outputs("h.0.mlp"))
    numbers.push_back(executor_->scalar_output(0, output));
  EXPECT_THAT(numbers, ElementsAre(FloatEq(2), FloatEq(0.25), FloatEq(std::log(2.0f)), FloatEq(5)));
}

// By its rate towards the mean; one that has the mean stays.
TEST_F(ExpertTallies, MoveABiasAgainstTheLoad) {
  EXPECT_THAT(run(1), ElementsAre(0.75, 1, 1.25, 1));
  EXPECT_THAT(run(1), ElementsAre(0.5, 1, 1.5, 1));
}

TEST_F(ExpertTallies, LeaveABiasWhereAStepIsSkipped) {
  EXPECT_THAT(run(std::numeric_limits<float>::quiet_NaN()), ElementsAre(1, 1, 1, 1));
}

// A model may be the user's.
Value sum_of(OutputRole role, Shape shape) {
  return {.name = tally_state_name(tally_name(role, "own")),
          .type = {DType::f32, std::move(shape)},
          .kind = Value::Kind::kState,
          .attrs = {{std::string(kTallies), std::string(name(role))}, {"layer", "own"}}};
}

std::string refusal(std::vector<Value> sums) {
  Builder b(ops(), "update");
  const ValueId scale = b.input("scale", {DType::f32, {}});
  return error_of([&] { add_tallies(b, {.sums = std::move(sums), .biases = {}}, scale); });
}

TEST(Tallies, OfAPartOfALayerWithExpertsAreAnError) {
  const Value load = sum_of(OutputRole::kLoad, {4}), importance = sum_of(OutputRole::kImportance, {4}),
              dropped = sum_of(OutputRole::kDropped, {}), objective = sum_of(OutputRole::kObjective, {});
  EXPECT_EQ(refusal({load, importance, dropped, objective}), "no error");
  for (const std::vector<Value>& some :
       {std::vector{objective}, std::vector{load, importance, dropped},
        std::vector{sum_of(OutputRole::kLoad, {}), importance, dropped, objective}})
    EXPECT_NE(refusal(some).find("tallies some of what a layer with experts has, 'own'"), std::string::npos);
}

}  // namespace
}  // namespace trireme
