// Methods that do something else in early steps: a program has an update for each stretch of them, and a list
// that takes the place of the step's until then.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/exchange/ranks.h"
#include "tests/support/error_of.h"
#include "trireme/ops/table.h"
#include "trireme/program/text.h"
#include "trireme/program/verify.h"

namespace trireme::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kDgc = R"({"method": "dgc", "ratio": 0.001, "warmup": 10})";

std::vector<Program> programs_of(const std::string& mesh, const std::string& exchange,
                                 const Training& training, const std::string& preset = "data") {
  const Plan plan = plan_of(mesh, exchange, preset);
  const std::unique_ptr<Device> device = make_cpu_device(1);
  std::vector<Program> ranks;
  for (int rank = 0; rank < plan.mesh.ranks(); ++rank)
    ranks.push_back(step_program(training.model, training.train, training.optim, training.shape, *device,
                                 {plan, rank, nullptr}));
  return ranks;
}

std::vector<int64_t> ends_of(const Program& program) {
  std::vector<int64_t> ends;
  for (const ActionList& list : program.lists) {
    if (list.when.kind == When::Kind::kUntil) ends.push_back(list.when.steps);
  }
  return ends;
}

// 25, 6.25, 1.56, 0.39 % of the elements, and then 0.1 %.
TEST(EarlySteps, OfDgcSendAQuarterLessEachTime) {
  const Program program = programs_of("data:2", kDgc, small_gpt())[0];
  EXPECT_THAT(ends_of(program), ElementsAre(2, 5, 7, 10));
  double before = 0;
  for (const int64_t step : {1, 3, 6, 8, 11}) {
    const ActionList& list = program.step_list(step);
    EXPECT_EQ(list.name, step == 11 ? "step" : fmt::format("step_until_{}", list.when.steps));
    EXPECT_TRUE(step == 1 || bytes_sent(program, list) < before) << step;
    before = bytes_sent(program, list);
    EXPECT_EQ(&program.step_list(step == 11 ? 1000 : list.when.steps), &list);
  }
  EXPECT_EQ(bytes_sent_in_step(program), before);
}

TEST(EarlySteps, HaveSoundProgramsThatAreReadAsTheyArePrinted) {
  Training training = small_gpt();
  training.train.accumulate = 2;
  for (const char* exchange : {kDgc, R"({"method": "one_bit_adam", "warmup": 7})",
                               R"([{"method": "dgc", "ratio": 0.1, "warmup": 3, "for": "h.0.*"},
                                   {"method": "one_bit_adam", "warmup": 5}])"}) {
    for (const auto& [mesh, preset] :
         {std::pair{"data:2", "data"}, {"data:2", "zero1"}, {"data:2 tensor:2", "megatron"}}) {
      const std::vector<Program> ranks = programs_of(mesh, exchange, training, preset);
      EXPECT_FALSE(ends_of(ranks[0]).empty());
      verify(ranks);
      for (const Program& program : ranks) {
        const Program again = parse_program(print(program), ops());
        EXPECT_EQ(print(again), print(program));
        EXPECT_EQ(ends_of(again), ends_of(program));
      }
    }
  }
}

TEST(EarlySteps, ThatMakeOtherGradientsAreRefused) {
  Program program = programs_of("data:2", kDgc, small_gpt())[0];
  for (ActionList& list : program.lists) {
    if (list.when == When::until(5)) list.actions.insert(list.actions.begin() + 1, list.actions[1]);
  }
  verify(program);  // the same update twice is no other gradient
  for (ActionList& list : program.lists) {
    if (list.when == When::until(5)) ++list.rows;
  }
  EXPECT_THAT(error_of([&] { verify(program); }), HasSubstr("takes other rows"));
  for (ActionList& list : program.lists) {
    if (list.when == When::until(5)) list.actions.erase(list.actions.begin());
  }
  EXPECT_NE(error_of([&] { verify(program); }), "no error");
}

// In the warm-up nothing is compressed: it is AdamW's training, but for rounding.
TEST(EarlySteps, OfOneBitAdamAreAdams) {
  Training training = small_gpt();
  training.steps = 5;
  training.rate = 1e-2;
  training.optim.weight_decay = 0.1;
  Training adam = training;
  adam.optim.kind = "adamw";
  adam.optim.beta2 = 0.999;
  adam.optim.eps = 1e-8;
  const History dense = record_of(plan_of("data:2", R"("all_reduce")"), adam),
                run = record_of(plan_of("data:2", R"({"method": "one_bit_adam", "warmup": 4})"), training);
  for (size_t step = 0; step < run.steps.size(); ++step) {
    double most = 0;
    for (const auto& [name, expected] : dense.steps[step].weights_after) {
      const Floats& found = run.steps[step].weights_after.at(name);
      for (size_t i = 0; i < found.size(); ++i)
        most = std::max(most, std::abs(static_cast<double>(found[i]) - static_cast<double>(expected[i])));
    }
    if (step < 4)
      EXPECT_LT(most, 2e-5) << step;
    else
      EXPECT_GT(most, 1e-4) << step;
  }
}

}  // namespace
}  // namespace trireme::testing
