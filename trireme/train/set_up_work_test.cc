// The work before the first step grows with the layers, not with their square; and each of a thousand ranks
// does a part of it, beside what is done once for all of them. Work is counted in allocations, which
// are the same on every machine.
#include <gtest/gtest.h>

#include "tests/support/allocation_count.h"
#include "trireme/program/build.h"
#include "trireme/train/trainer.h"

namespace trireme {
namespace {

double work_of_set_up(int64_t layers) {
  const ModelOptions model{.layers = layers, .heads = 2, .hidden = 8, .vocab = 8, .seq = 4};
  const TrainOptions train{.batch = 4};
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const int64_t begin = allocation_count();
  step_program(model, train, {}, {.rows = 4, .sample = {4}}, *device, {});
  return static_cast<double>(allocation_count() - begin);
}

// Eight times the layers: 8 times the work, and a little for what grows with the logarithm; the square would
// be 64 times.
TEST(SetUpWork, GrowsWithTheLayers) {
  EXPECT_LT(work_of_set_up(320) / work_of_set_up(40), 10);
}

// GPT-3's layers on 1024 ranks. A simulator or a planner asks for many programs.
TEST(SetUpWork, OfOneRankOfAThousandIsAPartOfTheWhole) {
  const ModelOptions model{.layers = 96, .heads = 96, .hidden = 12288, .vocab = 50257, .seq = 2048};
  const TrainOptions train{.batch = 1536};
  const Plan plan = parse_plan(R"({"mesh": "data:128 tensor:8", "preset": "megatron"})", "plan");
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const Schedule schedule = schedule_of(train, plan);
  const int64_t begin = allocation_count();
  const ProgramBuilder builder(step_graphs(model, train, {}, {1536, {2048}}, schedule).segments, plan,
                               schedule.microbatches);
  const int64_t once = allocation_count();
  builder.build(/*rank=*/1000, schedule, workspace_query(*device));
  const int64_t end = allocation_count();
  // Blocks that repeat are spread as the first of them, so that what is done once is not much more than a
  // rank's part: 2.2 and 1.5 million.
  EXPECT_LT(once - begin, 2'500'000);
  EXPECT_LT(end - once, 1'700'000);
}

}  // namespace
}  // namespace trireme
