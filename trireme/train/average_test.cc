// Averages of weights (train.ema): they start as the weights do, follow them, and are what is evaluated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/support/error_of.h"
#include "trireme/ir/trained.h"
#include "trireme/optim/update.h"
#include "trireme/run/config.h"
#include "trireme/run/random_case.h"
#include "trireme/train/step_programs.h"
#include "trireme/train/tensor_access.h"

namespace trireme {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kSettings = {"model.family=gpt", "model.layers=2", "model.heads=2",
                                            "model.hidden=8",   "model.vocab=12", "model.seq=4",
                                            "train.batch=4",    "optim.lr=0.05",  "train.ema=0.75"};

Config config(const std::vector<std::string>& more = {}) {
  std::vector<std::string> settings = kSettings;
  settings.insert(settings.end(), more.begin(), more.end());
  return resolve_config({.command_line = settings}).config;
}

TEST(Average, StartsAsTheWeightsFollowsThemAndIsEvaluated) {
  const auto device = make_device({.kind = "cpu", .threads = 1});
  for (const char* precision : {"f32", "bf16"}) {
    const Config with = config({fmt::format("train.precision={}", precision),
                                fmt::format("train.weight_precision={}", precision), "train.freeze=wpe*"});
    parity::Training training = parity::random_training(with, {4}, 3);
    Trainer trainer(training.model, training.train, training.optim, training.shape, *device);
    trainer.initialise(5);
    std::map<std::string, std::vector<float>> averages;
    for (const std::string& name : parameter_names(trainer)) averages[name] = read_tensor(trainer, name);
    averages.erase("wpe.weight");
    EXPECT_EQ(trainer.program().find_state("ema.wpe.weight"), nullptr);
    for (int64_t step = 0; step < 3; ++step) {
      for (const auto& [name, values] : averages)
        ASSERT_EQ(read_tensor(trainer, fmt::format("{}{}", kAverage, name)), values) << name << " " << step;
      trainer.step(training.batches[static_cast<size_t>(step)], step, 0.05);
      for (auto& [name, values] : averages) {
        const std::vector<float> weights = read_tensor(trainer, name);
        ASSERT_NE(weights, values);
        for (size_t i = 0; i < values.size(); ++i) values[i] = 0.75f * values[i] + 0.25f * weights[i];
      }
    }
    // Evaluated is a model whose weights are the averages.
    Evaluation of_averages, of_weights, plain;
    trainer.evaluate(training.batches[0], of_averages);
    TrainOptions without = training.train;
    without.ema = 0;
    Trainer other(training.model, without, training.optim, training.shape, *device);
    other.initialise(5);
    for (const std::string& name : parameter_names(other))
      write_tensor(other, name, read_tensor(trainer, name));
    other.evaluate(training.batches[0], of_weights);
    for (const auto& [name, values] : averages) write_tensor(other, name, values);
    other.evaluate(training.batches[0], plain);
    EXPECT_EQ(of_averages.loss, plain.loss) << precision;
    EXPECT_NE(of_averages.loss, of_weights.loss);
  }
}

parity::Result verify_average(const std::string& plan, const std::vector<std::string>& more = {}) {
  parity::RandomCase one{"gpt", "f32", {}, kSettings, plan};
  one.settings.insert(one.settings.end(), more.begin(), more.end());
  return parity::verify_case(one);
}

TEST(Average, UnderPlansIsWhatOneRankComputes) {
  for (const char* plan :
       {R"({"mesh":"data:2","preset":"zero1"})", R"({"mesh":"data:2","preset":"zero3"})",
        R"({"mesh":"data:2 tensor:2","preset":"zero2+megatron"})",
        R"({"mesh":"pipe:2","schedule":"1f1b","accumulate":2})",
        R"({"mesh":"pipe:2","schedule":"chimera","accumulate":2})",
        R"({"mesh":"pipe:2 data:2","preset":"zero1","schedule":"zb_h1","accumulate":2})"}) {
    const parity::Result result = verify_average(plan);
    EXPECT_LE(result.verdict, parity::Verdict::kRounding) << plan << ": " << result.reason;
  }
  const parity::Result half = verify_average(R"({"mesh":"data:2","preset":"zero1"})",
                                             {"train.precision=bf16", "train.weight_precision=bf16"});
  EXPECT_LE(half.verdict, parity::Verdict::kRounding) << half.reason;
}

// As moments are.
TEST(Average, IsSplitWithTheOptimizersStates) {
  const Config with = config({"train.accumulate=2"});  // with one microbatch weights are split too
  StepPrograms programs(with.model, with.train, with.optim, {4, Shape{4}},
                        parse_plan(R"({"mesh":"data:2","preset":"zero1"})", "the plan"));
  const Program program = programs.rank(0, nullptr);
  EXPECT_EQ(program.find_state("ema.wte.weight")->type.shape, (Shape{6, 8}));
  EXPECT_EQ(program.find_state("wte.weight")->type.shape, (Shape{12, 8}));
}

// An average is no momentum, of which DGC has its own.
TEST(Average, GoesWithMethodsThatHaveMomentum) {
  const Config with = config({"optim.kind=sgd"});
  const Plan plan = parse_plan(R"({"mesh":"data:2","exchange":{"method":"dgc","ratio":0.1}})", "the plan");
  const StepPrograms programs(with.model, with.train, with.optim, {4, Shape{4}}, plan);
  EXPECT_NE(programs.rank(0, nullptr).find_state("ema.wte.weight"), nullptr);
}

TEST(Average, IsRefusedWhereThereIsNoOneWeight) {
  const auto refusal = [](const char* plan) {
    const Config with = config();
    return error_of([&] {
      StepPrograms(with.model, with.train, with.optim, {4, Shape{4}}, parse_plan(plan, "the plan"));
    });
  };
  EXPECT_THAT(refusal(R"({"mesh":"data:2","exchange":{"method":"local","steps":2}})"),
              HasSubstr("no one weight to average"));
  EXPECT_THAT(refusal(R"({"mesh":"data:3","exchange":{"method":"server"}})"),
              HasSubstr("a server does not keep averages yet"));
  EXPECT_THAT(refusal(R"({"mesh":"data:1","offload":{"optimizer":"file","folder":"/tmp"}})"),
              HasSubstr("can not read them"));
}

}  // namespace
}  // namespace trireme
