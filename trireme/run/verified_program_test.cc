// Programs that would go wrong are refused before the first step, by their own rank and by rank 0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "trireme/run/run_setup.h"
#include "trireme/train/step_programs.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

struct Ranks {
  Plan plan;
  StepPrograms programs;

  explicit Ranks(const char* text)
      : plan(parse_plan(text, "test")), programs(model(), train(), {}, {8, {4}}, plan) {}
  static ModelOptions model() { return {.layers = 4, .heads = 2, .hidden = 8, .vocab = 8, .seq = 4}; }
  static TrainOptions train() {
    TrainOptions train;
    train.batch = 16;
    train.accumulate = 2;
    return train;
  }
  Program rank(int rank) const { return programs.rank(rank, nullptr); }
};

TEST(VerifiedProgram, SoundProgramsAreBegun) {
  for (const char* plan : {R"({"mesh": "data:1"})", R"({"mesh": "pipe:2 data:2", "schedule": "1f1b"})",
                           R"({"mesh": "data:4", "exchange": {"method": "local", "steps": 4}})"}) {
    const Ranks ranks(plan);
    for (int rank = 0; rank < ranks.plan.mesh.ranks(); ++rank)
      EXPECT_NO_THROW(verify_before_steps(ranks.rank(rank), [&](int other) { return ranks.rank(other); }))
          << plan;
  }
}

// A message that nobody sends; only who sees both ends finds out.
TEST(VerifiedProgram, RankZeroSeesWhatDoesNotFitTogether) {
  const Ranks ranks(R"({"mesh": "pipe:2", "schedule": "1f1b"})");
  const auto silent = [&](int rank) {
    Program program = ranks.rank(rank);
    for (ActionList& list : program.lists) {
      if (list.name == "step")
        std::erase_if(list.actions, [](const Action& action) { return action.kind == Action::Kind::kSend; });
    }
    return program;
  };
  EXPECT_THAT(error_of([&] { verify_before_steps(ranks.rank(0), silent); }),
              AllOf(HasSubstr("the run was not begun"), HasSubstr("from rank 1 to rank 0, message 1")));
  EXPECT_NO_THROW(verify_before_steps(ranks.rank(1), silent)) << "it looks at its own alone";
}

// A state that lies where another one does.
TEST(VerifiedProgram, EveryRankVerifiesItsOwn) {
  const Ranks ranks(R"({"mesh": "data:2"})");
  Program broken = ranks.rank(1);
  broken.states[1].offset = broken.states[0].offset;
  EXPECT_THAT(error_of([&] { verify_before_steps(broken, [&](int other) { return ranks.rank(other); }); }),
              HasSubstr("the run was not begun"));
}

}  // namespace
}  // namespace trireme
