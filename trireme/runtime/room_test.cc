#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/runtime/device_queries.h"

namespace trireme {
namespace {

Program program() {
  Program p;
  const auto add = [&](const char* name, Role role, int64_t elements) {
    p.states.push_back({name, {DType::f32, {elements}}, role, {}, p.state_bytes, {}});
    p.state_bytes += static_cast<size_t>(elements) * 4;
  };
  add("w", Role::kParameter, 1 << 20);
  add("m", Role::kOptimizer, 1 << 20);
  add("v", Role::kOptimizer, 1 << 20);
  add("g", Role::kGradient, 1 << 19);
  p.arena_bytes = size_t{64} << 20;
  return p;
}

TEST(Room, WhatFitsIsTaken) {
  EXPECT_NO_THROW(expect_room(program(), program().peak_bytes()));
}

TEST(Room, WhatDoesNotFitIsRefusedWithTheThreeLargestAndWhatHelps) {
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  using ::testing::Not;
  EXPECT_THAT([] { expect_room(program(), program().peak_bytes() - 1); },
              ::testing::ThrowsMessage<Error>(
                  AllOf(HasSubstr("on its way: 64.0 MiB (less with a smaller train.batch"),
                        HasSubstr("states of the optimizer: 8.0 MiB (less with zero1"),
                        HasSubstr("weights: 4.0 MiB (less with zero3"), Not(HasSubstr("gradients")))));
}

}  // namespace
}  // namespace trireme
