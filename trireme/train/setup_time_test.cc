// What is done before the first step grows with the layers, not with their square; and what each of a
// thousand ranks does of it takes little, beside what is done once for all of them.
#include <gtest/gtest.h>

#include "tests/support/times.h"
#include "trireme/program/build.h"
#include "trireme/train/trainer.h"

namespace trireme {
namespace {

double seconds_of_set_up(int64_t layers) {
  const ModelOptions model{.layers = layers, .heads = 2, .hidden = 8, .vocab = 8, .seq = 4};
  const TrainOptions train{.batch = 4};
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const double begin = processor_seconds();
  step_program(model, train, {}, {.rows = 4, .sample = {4}}, *device, {});
  return processor_seconds() - begin;
}

// Eight times the layers: 8 times the work, and at most twice that for what grows with the logarithm and for
// caches; the square would be 64 times. Few layers are measured twice, because the first time memory is new.
double growth(int64_t layers) {
  seconds_of_set_up(layers);
  const double few = seconds_of_set_up(layers);
  return seconds_of_set_up(8 * layers) / few;
}

TEST(SetUpTime, GrowsWithTheLayers) {
  EXPECT_LT(growth(40), 16);
}

// GPT-3's layers on 1024 ranks. A simulator or a planner asks for many programs.
TEST(SetUpTime, OfOneRankOfAThousandIsAFractionOfASecond) {
  const ModelOptions model{.layers = 96, .heads = 96, .hidden = 12288, .vocab = 50257, .seq = 2048};
  const TrainOptions train{.batch = 1536};
  const Plan plan = parse_plan(R"({"mesh": "data:128 tensor:8", "preset": "megatron"})", "plan");
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const Schedule schedule = schedule_of(train, plan);
  const double begin = processor_seconds();
  const ProgramBuilder builder(step_graphs(model, train, {}, {1536, {2048}}, schedule).segments, plan,
                               schedule.microbatches);
  const double once = processor_seconds();
  builder.build(/*rank=*/1000, schedule, workspace_query(*device));
  const double end = processor_seconds();
  fmt::print("96 layers on data:128 tensor:8: {:.3f} s once, {:.3f} s for a rank\n", once - begin,
             end - once);
  EXPECT_LT(end - once, 0.5);
}

}  // namespace
}  // namespace trireme
