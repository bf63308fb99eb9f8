// How a step is spread over the ranks of a stage does not depend on where the model is cut.
#include <gtest/gtest.h>

#include "trireme/program/text.h"
#include "trireme/train/step_programs.h"

namespace trireme {
namespace {

using KnownSteps = std::vector<std::shared_ptr<const SpreadStep>>;

StepPrograms programs_under(const char* plan, const KnownSteps& before = {}) {
  const ModelOptions gpt{.layers = 6, .heads = 2, .hidden = 8, .vocab = 8, .seq = 4};
  const TrainOptions train{.batch = 32, .accumulate = 4};
  return StepPrograms(Model(gpt), train, OptimOptions(), StepShape{.rows = 8, .sample = {4}},
                      parse_plan(plan, "plan"), before);
}

TEST(SharedSpread, OfPlansThatCutTheModelElsewhere) {
  const StepPrograms first = programs_under(
      R"({"mesh": "pipe:2 data:2 tensor:2", "preset": "megatron+zero3", "schedule": "1f1b", "accumulate": 4})");
  for (
      const char* const plan :
      {R"({"mesh": "pipe:4 data:2 tensor:2", "preset": "megatron+zero3", "schedule": "zb_h1", "accumulate": 4})",
       R"({"mesh": "pipe:2 data:2 tensor:2", "preset": "megatron+zero3", "schedule": "interleaved", "chunks": 3,
            "accumulate": 4, "recompute": "full", "boundaries": "parts"})"}) {
    const StepPrograms shared = programs_under(plan, {first.spread()}), apart = programs_under(plan);
    EXPECT_EQ(&shared.spread()->segments(), &first.spread()->segments());
    EXPECT_NE(&apart.spread()->segments(), &first.spread()->segments());
    for (const int rank : {0, 3, 7})
      EXPECT_EQ(print(shared.rank(rank, kNoWorkspace)), print(apart.rank(rank, kNoWorkspace)));
  }
}

TEST(SharedSpread, NotOfPlansThatShareTensorsOtherwise) {
  const StepPrograms first =
      programs_under(R"({"mesh": "pipe:2 data:2 tensor:2", "preset": "megatron+zero3", "accumulate": 4})");
  for (const char* const plan :
       {R"({"mesh": "pipe:2 data:4", "preset": "zero3", "accumulate": 4})",
        R"({"mesh": "pipe:2 data:2 tensor:2", "preset": "megatron+zero1", "accumulate": 4})",
        R"({"mesh": "data:2 tensor:2", "preset": "megatron+zero3", "accumulate": 4})"})
    EXPECT_NE(&programs_under(plan, {first.spread()}).spread()->segments(), &first.spread()->segments())
        << plan;
}

}  // namespace
}  // namespace trireme
