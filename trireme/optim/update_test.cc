// What an update segment is made of, and small steps worked out by hand. That ten steps of each optimizer are
// PyTorch's is in tests/parity.
#include "trireme/optim/update.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/error_of.h"
#include "trireme/base/error.h"
#include "trireme/optim/groups.h"
#include "trireme/runtime/executor.h"

namespace trireme {
namespace {

Value parameter(const char* name, const Shape& shape) {
  return {name, {DType::f32, shape}, Value::Kind::kState, -1, Role::kParameter};
}

// A matrix [1,2] and a bias [1] on a CPU.
class Update : public testing::Test {
 protected:
  void make(const OptimOptions& options, double clip_norm = 0, double ema = 0) {
    device_ = make_cpu_device(1);
    UpdateOptions train;
    train.clip_norm = clip_norm;
    train.ema = ema;
    const Graph graph = update_graph({parameter("w", {1, 2}), parameter("b", {1})}, {}, options, train);
    executor_ = std::make_unique<Executor>(build_program({graph}, workspace_query(*device_)), *device_);
    for (const State& state : executor_->program().states)
      set(state.name, std::vector<float>(state.type.shape.elements(), 0.0f));
    set("accumulated.count", {1});
    set("w", {1, -2});
    set("b", {4});
  }
  void set(const std::string& state, const std::vector<float>& values) {
    executor_->write_state(state, values.data(), values.size() * sizeof(float));
  }
  std::vector<float> get(const std::string& state) {
    std::vector<float> values(executor_->state_type(state).shape.elements());
    executor_->read_state(state, values.data(), values.size() * sizeof(float));
    return values;
  }
  void step(float rate, float number = 1, float loss_scale = 1) {
    executor_->set_input(0, "lr", &rate, sizeof rate);
    executor_->set_input(0, "loss_scale", &loss_scale, sizeof loss_scale);
    if (executor_->program().segments[0].graph.find("step") != kNoValue)
      executor_->set_input(0, "step", &number, sizeof number);
    executor_->run(0);
  }
  static OptimOptions kind(const char* name, double weight_decay = 0) {
    OptimOptions options;
    options.kind = name;
    options.weight_decay = weight_decay;
    options.momentum = 0.5;
    return options;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Executor> executor_;
};

using testing::FloatEq;

TEST_F(Update, SumsAreDividedByCountAndLossScaleAndClipped) {
  make(kind("sgd"), /*clip_norm=*/1);
  set("accumulated.count", {4});
  set("grad.w", {3 * 32, 0});
  set("grad.b", {4 * 32});
  step(0.5, 1, 8);
  EXPECT_FLOAT_EQ(executor_->scalar_output(0, "norm"), 5);  // before clipping, of both tensors together
  EXPECT_THAT(get("w"), testing::ElementsAre(FloatEq(1 - 0.3f), FloatEq(-2)));
  EXPECT_THAT(get("b"), testing::ElementsAre(FloatEq(4 - 0.4f)));
}

TEST_F(Update, SmallGradientsAreNotClipped) {
  make(kind("sgd"), /*clip_norm=*/1);
  set("grad.w", {0.3f, 0.4f});
  step(1);
  EXPECT_THAT(get("w"), testing::ElementsAre(FloatEq(0.7f), FloatEq(-2.4f)));
}

TEST_F(Update, DecayIsForMatricesOnly) {
  for (const char* name : {"sgd", "momentum", "adamw"}) {
    make(kind(name, 0.1));
    step(0.5);
    EXPECT_THAT(get("w"), testing::ElementsAre(FloatEq(0.95f), FloatEq(-1.9f))) << name;
    EXPECT_THAT(get("b"), testing::ElementsAre(4)) << name;
  }
}

// A batch of 16 (the default) is four times that of which the decays are: twice as much decay.
TEST_F(Update, DecayGrowsWithTheBatchAsAsked) {
  OptimOptions options = kind("sgd", 0.1);
  options.groups = {{"b", 1, 0.2}};
  options.decay_rule = "sqrt";
  options.base_batch = 4;
  make(options);
  step(0.5);
  EXPECT_THAT(get("w"), testing::ElementsAre(FloatEq(0.9f), FloatEq(-1.8f)));
  EXPECT_THAT(get("b"), testing::ElementsAre(FloatEq(4 - 0.5f * 0.4f * 4)));
}

// w: rate 0.5 · 0.1 and decay 0.4, b: rate 0.5 and decay 0.2, which a vector has by its group alone.
TEST_F(Update, GroupsHaveRatesAndDecaysOfTheirOwn) {
  OptimOptions options = kind("sgd", 9);
  options.groups = {{"w", 0.1, 0.4}, {"*", 1, 0.2}};
  make(options);
  set("grad.w", {2, 4});
  set("grad.b", {1});
  step(0.5);
  EXPECT_THAT(get("w"),
              testing::ElementsAre(FloatEq(1 - 0.05f * (2 + 0.4f)), FloatEq(-2 - 0.05f * (4 - 0.8f))));
  EXPECT_THAT(get("b"), testing::ElementsAre(FloatEq(4 - 0.5f * (1 + 0.8f))));
  options.groups = {{"w", 0, std::nullopt}};  // without a decay of its own: that of all, at no rate
  for (const char* name : {"sgd", "momentum", "adam", "adamw", "lamb"}) {
    options.kind = name;
    make(options);
    set("grad.w", {2, 4});
    step(0.5);
    EXPECT_THAT(get("w"), testing::ElementsAre(1, -2)) << name;
  }
}

// 1/10 of the rate is 1/10 of Adam's first step.
TEST_F(Update, GroupsOfAdam) {
  OptimOptions options = kind("adamw");
  options.groups = {{"b", 0.1, std::nullopt}};
  make(options);
  set("grad.w", {3, -3});
  set("grad.b", {7});
  step(0.25);
  EXPECT_THAT(get("b"), testing::ElementsAre(testing::FloatNear(4 - 0.025f, 1e-6f)));
  EXPECT_THAT(get("w"),
              testing::ElementsAre(testing::FloatNear(0.75f, 1e-5f), testing::FloatNear(-1.75f, 1e-5f)));
}

// ema' = 0.75 · ema + 0.25 · w', and a step that is skipped leaves it.
TEST_F(Update, AveragesFollowTheirRecurrence) {
  make(kind("sgd"), 0, 0.75);
  set("ema.w", {1, -2});
  set("ema.b", {4});
  set("grad.b", {2});
  step(1);  // b: 2
  EXPECT_THAT(get("ema.b"), testing::ElementsAre(3.5f));
  step(1);  // b: 0
  EXPECT_THAT(get("ema.b"), testing::ElementsAre(2.625f));
  EXPECT_THAT(get("ema.w"), testing::ElementsAre(1, -2));
  set("grad.w", {INFINITY, 0});
  step(1);
  EXPECT_THAT(get("b"), testing::ElementsAre(0));
  EXPECT_THAT(get("ema.b"), testing::ElementsAre(2.625f));
}

TEST(Groups, TheFirstThatFitsHoldsAndNoneIsInVain) {
  const auto refusal = [](std::vector<ParameterGroup> groups, std::vector<std::string> trained) {
    OptimOptions options;
    options.groups = std::move(groups);
    return error_of([&] {
      check_groups(options, std::vector<std::string>{"h.0.weight", "h.0.bias", "head"}, trained);
    });
  };
  const std::vector<std::string> all = {"h.0.weight", "h.0.bias", "head"};
  EXPECT_EQ(refusal({{"*.bias"}, {"h.0.*"}}, all), "no error");
  EXPECT_THAT(refusal({{"*.bais"}}, all), testing::HasSubstr("optim.groups has '*.bais', which fits no"));
  EXPECT_THAT(refusal({{"h.0.*"}, {"*.bias"}}, all), testing::HasSubstr("belong to groups before it"));
  EXPECT_THAT(refusal({{"*.bias"}}, {"head"}), testing::HasSubstr("frozen parameters alone"));
  OptimOptions options;
  options.groups = {{"*.bias", 0.5}, {"h.0.*", 2}};
  EXPECT_EQ(group_of(options, "h.0.bias")->lr_scale, 0.5);
  EXPECT_EQ(group_of(options, "h.0.weight")->lr_scale, 2);
  EXPECT_EQ(group_of(options, "head"), nullptr);
}

TEST_F(Update, MomentumAndNesterov) {
  make(kind("momentum"));
  set("grad.b", {1});
  step(0.1f);
  step(0.1f);  // velocities 1 and 1.5
  EXPECT_THAT(get("b"), testing::ElementsAre(FloatEq(3.75f)));
  make(kind("nesterov"));
  set("grad.b", {1});
  step(0.1f);
  step(0.1f);  // 1 + 0.5 · 1 and 1 + 0.5 · 1.5
  EXPECT_THAT(get("b"), testing::ElementsAre(FloatEq(3.675f)));
}

TEST_F(Update, FirstStepOfAdamIsTheRateWhateverTheGradient) {
  for (const char* name : {"adam", "adamw"}) {
    make(kind(name));
    set("grad.w", {1e3f, -1e-3f});
    step(0.25);
    EXPECT_THAT(get("w"),
                testing::ElementsAre(testing::FloatNear(0.75f, 1e-5f), testing::FloatNear(-1.75f, 1e-5f)));
  }
}

TEST_F(Update, LarsMovesByTheTrustedPartOfTheNorm) {
  OptimOptions options = kind("lars");
  options.trust = 0.1;
  make(options);
  set("w", {3, 4});
  set("grad.w", {0, 20});
  step(2);  // 2 · 0.1 · 5 / 20 · (0, 20)
  EXPECT_THAT(get("w"), testing::ElementsAre(FloatEq(3), FloatEq(3)));
}

TEST_F(Update, LambMovesByTheNormOfTheWeights) {
  make(kind("lamb"));
  set("w", {3, 4});
  set("grad.w", {7, 7});
  step(0.1f);  // direction (1, 1) with norm √2
  const float part = 0.1f * 5 / std::sqrt(2.0f);
  EXPECT_THAT(get("w"),
              testing::ElementsAre(testing::FloatNear(3 - part, 1e-5f), testing::FloatNear(4 - part, 1e-5f)));
}

TEST_F(Update, StepsWithoutAFiniteGradientChangeNothing) {
  for (const char* name : {"sgd", "momentum", "nesterov", "adam", "adamw", "lars", "lamb"}) {
    make(kind(name, 0.1));
    set("grad.w", {1, 1});
    step(0.1f);
    std::map<std::string, std::vector<float>> before;
    set("grad.b", {INFINITY});
    for (const State& state : executor_->program().states) before[state.name] = get(state.name);
    step(0.1f, 2);
    for (const auto& [state, values] : before) EXPECT_EQ(get(state), values) << name << ' ' << state;
    EXPECT_TRUE(std::isnan(executor_->scalar_output(0, "scale"))) << name;
  }
}

TEST_F(Update, StatesAreNamedAfterTheirParameters) {
  make(kind("adamw"));
  for (const char* name : {"m.w", "v.w", "m.b", "v.b"}) EXPECT_NO_THROW(executor_->state_type(name)) << name;
  make(kind("lars"));
  EXPECT_NO_THROW(executor_->state_type("u.w"));
}

TEST_F(Update, UnknownOptimizerIsRefusedWithTheKnownOnes) {
  try {
    make(kind("adamx"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("adamx"), testing::HasSubstr("adamw, lars")));
  }
}

}  // namespace
}  // namespace trireme
