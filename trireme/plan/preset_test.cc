// The table of presets, and which rows a plan gets from it.
#include "trireme/plan/preset.h"

#include <gtest/gtest.h>

#include "trireme/plan/plan.h"

namespace trireme {
namespace {

std::string over(const char* preset, const char* axis) {
  const Preset* found = Plan{.preset = preset}.preset_over(axis);
  return found ? std::string(found->name) : "nothing";
}

TEST(Preset, APlanHasARowForEachAxis) {
  EXPECT_EQ(over("zero1", "data"), "zero1");
  EXPECT_EQ(over("megatron+zero3", "data"), "zero3");
  EXPECT_EQ(over("megatron+zero3", "tensor"), "megatron");
  EXPECT_EQ(over("megatron", "data"), "data") << "data parallelism is always meant";
  EXPECT_EQ(over("zero1", "replica"), "replica");
  EXPECT_EQ(over("data", "tensor"), "nothing");
  EXPECT_EQ(over("megatron+sequence", "tensor"), "sequence") << "which changes megatron";
  EXPECT_EQ(over("sequence+megatron", "tensor"), "sequence");
  EXPECT_EQ(over("context+striped", "context"), "striped");
}

// What is split in the update must be there in parts: the moments of a rank go with its part of the weights.
TEST(Preset, StatesThatMeetInTheUpdateAreSharedAlike) {
  for (const char* name : {"data", "zero1", "zero2", "zero3"}) {
    const StateShares& states = find_preset(name)->states.value();
    EXPECT_EQ(states.parameter.in_update, states.optimizer.in_update) << name;
    EXPECT_EQ(states.gradient.in_update, states.optimizer.in_update) << name;
    EXPECT_EQ(states.gradient_of_one.in_update, states.optimizer.in_update) << name;
    EXPECT_EQ(states.parameter.in_use, Share::kWhole) << name;
  }
  EXPECT_EQ(find_preset("zero4"), nullptr);
}

}  // namespace
}  // namespace trireme
