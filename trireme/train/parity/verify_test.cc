// What is no mistake is not called one: settings and plans that verify() once took for bugs. What is one is
// found by tests/parity/broken_test.cc.
#include "trireme/train/parity/verify.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/support/error_of.h"
#include "trireme/run/config.h"
#include "trireme/run/plan_settings.h"
#include "trireme/run/random_case.h"
#include "trireme/train/parity/states.h"

namespace trireme::parity {
namespace {

using testing::HasSubstr;

const std::vector<std::string> kMlp = {"model.family=mlp", "model.layers=2", "model.hidden=6",
                                       "model.classes=4",  "train.batch=6",  "optim.kind=adam",
                                       "optim.lr=0.001"};

Result verify_mlp(const std::string& plan, const std::vector<std::string>& more = {}) {
  RandomCase one{"mlp", "f32", Shape{1, 3, 2}, kMlp, plan};
  one.settings.insert(one.settings.end(), more.begin(), more.end());
  return verify_case(one);
}

// Squares of ranks' gradients are not the square of one rank's.
TEST(NoFalseAlarm, NoiseScale) {
  const Result result = verify_mlp(R"({"mesh":"data:3"})", {"train.noise_scale=true"});
  EXPECT_EQ(result.verdict, Verdict::kRounding) << result.reason;
}

TEST(NoFalseAlarm, NativeAlgorithm) {
  const Result result = verify_mlp(R"({"mesh":"data:2","algorithm":"native"})");
  EXPECT_EQ(result.verdict, Verdict::kRounding) << result.reason;
  const Result unknown = verify_mlp(R"({"mesh":"data:2","algorithm":"nativ"})");
  EXPECT_EQ(unknown.verdict, Verdict::kRefused);
  EXPECT_THAT(unknown.reason, HasSubstr("did you mean 'native'?"));
}

// A rate beyond all measure: after the step, logits are infinite and the loss of an evaluation is no number.
TEST(NoFalseAlarm, NotANumberOnBothSides) {
  ResolvedConfig config =
      resolve_config({.command_line = {"model.family=mlp", "model.layers=2", "model.hidden=6",
                                       "model.classes=4", "train.batch=6", "train.clip_norm=0",
                                       "optim.kind=sgd", "optim.lr=1e37", "data.path=none"}});
  Reference reference(random_training(config.config, Shape{1, 3, 2}, 1));
  ASSERT_TRUE(std::isnan(reference.evaluation().loss));
  const Result result = verify(reference, parse_plan(R"({"mesh":"data:2"})", "the plan"));
  EXPECT_EQ(result.verdict, Verdict::kRounding) << result.reason;
}

// Sequences of 9 and 13 rows over 6 ranks: parts of sizes that differ, exchanged for each other, scattered
// and gathered. Each rank sends what its program says, to the byte, also where nothing is compressed.
TEST(Bytes, OfUnevenParts) {
  const std::string exchanges = R"("layouts":{"model.layers.0/self_attn/v_proj/matmul":"data:1"})";
  const std::vector<std::string> settings = {"model.layers=1",     "model.heads=2",  "model.hidden=16",
                                             "model.kv_heads=2",   "model.vocab=8",  "model.seq=9",
                                             "train.accumulate=2", "train.batch=26", "optim.kind=sgd"};
  for (const std::string& plan :
       {R"({"mesh":"data:6","preset":"data","algorithm":"ring",)" + exchanges + "}",
        R"({"mesh":"data:6","preset":"data",)" + exchanges + "}",
        R"({"mesh":"data:6","preset":"data","exchange":"threshold",)" + exchanges + "}",
        std::string(R"({"mesh":"data:6","preset":"zero3"})"),
        std::string(R"({"mesh":"data:3 tensor:2","preset":"megatron+sequence","algorithm":"butterfly"})")}) {
    SCOPED_TRACE(plan);
    RandomCase one{"llama", "f32", {}, {"model.family=llama"}, plan};
    one.settings.insert(one.settings.end(), settings.begin(), settings.end());
    const Result result = verify_case(one);
    EXPECT_EQ(result.verdict, Verdict::kRounding) << result.reason;
  }
}

TEST(NoFalseAlarm, WhichNaNItIsMeansNothing) {
  const float quiet = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(same(quiet, -quiet));
  EXPECT_TRUE(same(1.0f, 1.0f));
  EXPECT_FALSE(same(quiet, 1.0f));
  EXPECT_FALSE(same(0.0f, -0.0f));
}

// Four equal rows have a gradient beyond the largest number of f16; two of them have not, and ranks add up in
// f32.
TEST(NoFalseAlarm, OneRankAloneOverflows) {
  const ResolvedConfig config = resolve_config(
      {.command_line = {"model.family=mlp", "model.layers=1", "model.classes=10", "train.batch=4",
                        "train.precision=f16", "optim.kind=sgd", "data.path=none"}});
  Training training = random_training(config.config, Shape{1, 6, 6}, 1);
  for (float& pixel : training.batches[0].at("images").values<float>()) pixel = 1.6f;
  for (int32_t& label : training.batches[0].at("labels").values<int32_t>()) label = 0;
  Reference reference(std::move(training));
  ASSERT_TRUE(reference.record()[0].result.skipped);
  const Result result = verify(reference, parse_plan(R"({"mesh":"data:2"})", "the plan"));
  EXPECT_EQ(result.verdict, Verdict::kRounding) << result.reason;
}

// Gradients of norms of four features, near the largest number of f16: some noisy runs of one rank overflow.
TEST(NoFalseAlarm, RoundingAloneOverflows) {
  RandomCase one{"bert", "f16", {}, {}, R"({"mesh":"data:2"})"};
  one.settings = {"model.family=bert", "model.layers=2",    "model.heads=2",      "model.hidden=4",
                  "model.vocab=31",    "model.seq=10",      "train.batch=7",      "train.seed=353",
                  "optim.kind=adamw",  "model.dropout=0.4", "train.precision=f16"};
  const Result result = verify_case(one);
  EXPECT_EQ(result.verdict, Verdict::kRounding) << result.reason;
}

// In f32 several elements are as large as the limit that DGC finds by looking at some of them, and so more
// are sent for their size and fewer to fill up.
TEST(NoFalseAlarm, ASampledLimitThatOthersEqual) {
  RandomCase one{"mlp", "f16", Shape{1, 20, 30}, {}, R"({"mesh":"data:2","exchange":{
      "method":"dgc","ratio":0.05,"momentum":0.0,"masking":0,"warmup":2,"sampled":0.3}})"};
  one.settings = {"model.family=mlp", "model.layers=2",  "model.hidden=48",
                  "model.classes=3",  "train.batch=4",   "train.precision=f16",
                  "train.seed=8",     "optim.kind=adam", "optim.lr=0.001"};
  const Result result = verify_case(one);
  EXPECT_EQ(result.verdict, Verdict::kRounding) << result.reason;
}

// Scaled gradients in f16 have few values, so that many nearly equal the smallest that is sent.
TEST(NoFalseAlarm, ManyThatNearlyEqualTheSmallestThatIsSent) {
  RandomCase one{"lenet", "f16", Shape{3, 28, 31}, {}, R"({"mesh":"data:6","exchange":{
      "method":"dgc","ratio":0.2,"momentum":0.0,"masking":1,"warmup":1}})"};
  one.settings = {"model.family=lenet",  "model.classes=2", "model.dropout=0", "train.batch=15",
                  "train.precision=f16", "train.seed=490",  "optim.kind=sgd",  "optim.lr=0.05"};
  const Result result = verify_case(one);
  EXPECT_EQ(result.verdict, Verdict::kRounding) << result.reason;
}

TEST(Verify, EveryStepNeedsABatchAndALearningRate) {
  const ResolvedConfig config =
      resolve_config({.command_line = {"model.family=mlp", "model.layers=1", "model.classes=10",
                                       "train.batch=4", "data.path=none"}});
  Training training = random_training(config.config, Shape{1, 3, 2}, 2);
  training.rates.pop_back();
  EXPECT_THAT(error_of([&] { Reference reference(std::move(training)); }),
              HasSubstr("2 batches and 1 learning rates; one of each for every step expected"));
}

// An evaluation whose loss moves by more than one sample of the noise shows.
TEST(NoFalseAlarm, EvaluationIsBoundByAllSamples) {
  const RandomCase one{"mlp",
                       "bf16",
                       Shape{3, 3, 5},
                       {"model.family=mlp", "model.layers=4", "model.hidden=13", "model.classes=4",
                        "train.batch=8", "train.precision=bf16", "train.seed=9", "optim.kind=nesterov",
                        "optim.lr=0.05", "optim.weight_decay=0"},
                       R"({"mesh":"tensor:4 data:2","preset":"data+megatron"})"};
  const Result result = verify_case(one);
  EXPECT_EQ(result.verdict, Verdict::kRounding) << result.reason;
}

}  // namespace
}  // namespace trireme::parity
