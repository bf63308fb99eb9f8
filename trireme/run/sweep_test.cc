// Random cases: a function of the seed, as various as they should be, and each with a verdict of its own
// whatever happens to its process.
#include "trireme/run/sweep.h"

#include <gmock/gmock.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/mesh/mesh.h"

namespace trireme::parity {
namespace {

using nlohmann::json;
using testing::Each;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Not;

TEST(RandomCase, IsAFunctionOfItsSeedAndNumber) {
  const CaseRanges ranges;
  EXPECT_EQ(command_of(draw_case(1, 5, ranges)), command_of(draw_case(1, 5, ranges)));
  std::set<std::string> commands;
  for (uint64_t number = 0; number < 50; ++number) {
    commands.insert(command_of(draw_case(1, number, ranges)));
    commands.insert(command_of(draw_case(2, number, ranges)));
  }
  EXPECT_EQ(commands.size(), 100);
}

// What the sweep is to try is drawn, all of it, and nothing beyond the ranges.
TEST(RandomCase, DrawsOfEverything) {
  std::set<std::string> families, precisions, presets, orders, kinds, inputs, methods;
  int layouts = 0, uneven = 0;
  for (uint64_t number = 0; number < 600; ++number) {
    const RandomCase drawn = draw_case(3, number, {.max_ranks = 6});
    const json plan = json::parse(drawn.plan);
    const Mesh mesh = parse_mesh(plan["mesh"].get<std::string>());
    ASSERT_LE(mesh.ranks(), 6);
    families.insert(drawn.family);
    precisions.insert(drawn.precision);
    methods.insert(drawn.exchange);
    EXPECT_EQ(drawn.exchange.empty(), !plan.contains("exchange"));
    presets.insert(plan.value("preset", ""));
    std::string order;
    for (const Axis& axis : mesh.axes()) order += axis.name + " ";
    orders.insert(order);
    layouts += plan.contains("layouts");
    const json given = plan.value("layouts", json::object());
    for (const auto& [name, layout] : given.items()) inputs.insert(name);
    for (const std::string& setting : drawn.settings) {
      if (setting.starts_with("optim.kind=")) kinds.insert(setting.substr(11));
      if (setting.starts_with("train.batch=")) uneven += std::stoi(setting.substr(12)) % mesh.ranks() != 0;
    }
  }
  EXPECT_EQ(families, (std::set<std::string>{"gpt", "llama", "bert", "lstm", "mlp", "lenet", "alexnet", "vgg",
                                             "resnet", "wide_resnet", "swin", "seq2seq", "lstm_seq2seq"}));
  EXPECT_EQ(precisions, (std::set<std::string>{"f32", "bf16", "f16"}));
  EXPECT_EQ(kinds.size(), 7);
  EXPECT_THAT(methods, IsSupersetOf({"", "local", "fedavg", "diloco", "delayed", "d_psgd", "sgp", "ad_psgd",
                                     "server", "async_server", "ssp"}));
  EXPECT_GT(methods.size(), 20);
  EXPECT_THAT(presets, IsSupersetOf({"data", "zero1", "zero2", "zero3", "megatron", "zero3+megatron",
                                     "data+megatron+sequence", "zero1+hybrid_cnn"}));
  EXPECT_THAT(orders, IsSupersetOf({"data ", "tensor ", "data tensor ", "tensor data "}));
  EXPECT_THAT(inputs, IsSupersetOf({"ids", "targets", "images", "labels", "wte.weight"}));
  EXPECT_GT(layouts, 150);
  EXPECT_GT(uneven, 150);
}

// Rows are samples of tokens; ranks that have other numbers of samples take their tokens of each.
TEST(RandomCase, RanksWithOtherNumbersOfBlocksHaveTheSameNodes) {
  const Result result = verify_case(
      {.settings = split("model.family=llama model.layers=1 model.heads=8 model.hidden=48 model.kv_heads=4 "
                         "model.feed_forward=11 model.vocab=30 model.seq=15 train.batch=3 "
                         "train.precision=f16 optim.kind=sgd optim.lr=0.05",
                         ' '),
       .plan = R"({"mesh":"data:2 tensor:4","preset":"megatron+sequence",
                   "layouts":{"model.layers.0.self_attn.q_proj.weight":"tensor:1"}})"});
  EXPECT_EQ(result.verdict, Verdict::kRounding) << result.reason;
}

// The searches for the first and the next microbatches once found batch norms worth cutting in one of them.
TEST(RandomCase, MicrobatchesCutTheSameOpsIntoSmallerOnes) {
  const Result result = verify_case({.image = Shape{3, 5, 4},
                                     .settings = split("model.family=resnet model.layers=8 model.classes=3 "
                                                       "train.accumulate=3 train.batch=18 optim.kind=adam",
                                                       ' '),
                                     .plan = R"({"mesh":"tensor:3","preset":"hybrid_cnn"})"});
  EXPECT_EQ(result.verdict, Verdict::kRounding) << result.reason;
}

// A loss that is added up over an axis first and then added to the others is the forward part's all the same.
TEST(RandomCase, LossesAreAddedUpInTheForwardPart) {
  const Result result = verify_case(
      {.settings = split("model.family=gpt model.layers=2 model.heads=4 model.hidden=24 model.vocab=26 "
                         "model.seq=4 train.accumulate=3 train.batch=9",
                         ' '),
       .plan = R"({"mesh":"data:2 tensor:1 pipe:2 other:2","preset":"zero3+megatron",
                   "layouts":{"head/ln_f/layer_norm":"other:1"},"schedule":"zb_h1"})"});
  EXPECT_EQ(result.verdict, Verdict::kRounding) << result.reason;
}

// The simulator's bytes are the programs'; and there is a verdict on a plan with an exchange.
TEST(RandomCase, OfAnExchangeIsHeldToItsMethod) {
  for (const char* exchange :
       {R"({"method":"local","steps":2})", R"({"method":"top_k","ratio":0.2})", R"("ad_psgd")"}) {
    const Result result =
        verify_case({.image = Shape{1, 3, 2},
                     .settings = split("model.family=mlp model.layers=2 model.hidden=6 model.classes=4 "
                                       "train.batch=9 optim.kind=sgd",
                                       ' '),
                     .plan = fmt::format(R"({{"mesh":"data:3","exchange":{}}})", exchange),
                     .exchange = exchange});
    EXPECT_EQ(result.verdict, Verdict::kRounding) << exchange << ": " << result.reason;
  }
}

// It once ended the process.
TEST(RandomCase, AnExchangeOfAParameterThatDataSplitsIsRefused) {
  const Result result =
      verify_case({.settings = split("model.family=gpt model.layers=1 model.heads=2 model.hidden=12 "
                                     "model.vocab=8 model.seq=4 train.batch=6 optim.kind=sgd",
                                     ' '),
                   .plan = R"({"mesh":"data:3","exchange":"top_k",
                               "layouts":{"h.0.attn.c_proj.weight":"data:0"}})",
                   .exchange = "top_k"});
  EXPECT_EQ(result.verdict, Verdict::kRefused);
  EXPECT_THAT(result.reason, HasSubstr("its layout splits over the axis data"));
}

// A layout has the gradient of a bias put together over the ranks.
TEST(RandomCase, AnExchangeOfWeightsThatDataSplitsIsRefused) {
  const Result result =
      verify_case({.image = Shape{1, 28, 28},
                   .settings = split("model.family=lenet model.classes=9 train.batch=12 optim.kind=lamb "
                                     "train.freeze=*1*",
                                     ' '),
                   .plan = R"({"mesh":"data:5","exchange":"sgp","layouts":{"fc3/grad/sum":"data:0"}})",
                   .exchange = "sgp"});
  EXPECT_EQ(result.verdict, Verdict::kRefused);
  EXPECT_THAT(result.reason, HasSubstr("ranks compute by themselves"));
}

TEST(RandomCase, SettingsThatAreGivenAreNotDrawn) {
  const CaseRanges ranges{
      .max_ranks = 2,
      .fixed = {{"model.family", "llama"}, {"train.precision", "bf16"}, {"model.heads", "6"}}};
  for (uint64_t number = 0; number < 40; ++number) {
    const RandomCase drawn = draw_case(1, number, ranges);
    EXPECT_EQ(drawn.family, "llama");
    EXPECT_EQ(drawn.precision, "bf16");
    EXPECT_THAT(drawn.settings, testing::Contains("model.heads=6"));
    EXPECT_THAT(drawn.settings, Each(Not(HasSubstr("gpt"))));
  }
}

RandomCase small_case(std::string plan) {
  return {"mlp",
          "f32",
          Shape{1, 2, 2},
          {"model.family=mlp", "model.layers=2", "model.hidden=4", "model.classes=3", "train.batch=4"},
          std::move(plan)};
}

TEST(Sweep, EachCaseHasItsVerdict) {
  EXPECT_EQ(run_apart(small_case(R"({"mesh":"data:2"})"), 60).outcome, Outcome::kRounding);
  EXPECT_EQ(run_apart(small_case(R"({"mesh":"data:1"})"), 60).outcome, Outcome::kEqual);
  const SweepResult refused = run_apart(small_case(R"({"mesh":"data:5"})"), 60);
  EXPECT_EQ(refused.outcome, Outcome::kRefused);
  EXPECT_THAT(refused.reason, HasSubstr("a microbatch of 4 rows"));
  EXPECT_EQ(run_apart(small_case("{"), 60).outcome, Outcome::kRefused);
}

TEST(Sweep, EndsOfProcessesAreVerdicts) {
  const RandomCase any = small_case(R"({"mesh":"data:2"})");
  const SweepResult aborted = run_apart(any, 60, [](const RandomCase&) -> Result {
    TRIREME_CHECK(1 + 1 == 3);
    return {};
  });
  EXPECT_EQ(aborted.outcome, Outcome::kAborted);
  EXPECT_THAT(aborted.reason, HasSubstr("1 + 1 == 3"));
  EXPECT_TRUE(is_failure(aborted.outcome));
  const SweepResult hung = run_apart(any, 0.05, [](const RandomCase&) -> Result {
    std::this_thread::sleep_for(std::chrono::minutes(1));
    return {};
  });
  EXPECT_EQ(hung.outcome, Outcome::kHung);
  const SweepResult failed = run_apart(
      any, 60, [](const RandomCase&) -> Result { throw_error("ranks 0 and 1 made different calls"); });
  EXPECT_EQ(failed.outcome, Outcome::kFailed);
  EXPECT_EQ(failed.reason, "ranks 0 and 1 made different calls");
  const SweepResult bug = run_apart(
      any, 60, [](const RandomCase&) { return Result{.verdict = Verdict::kBug, .reason = "two\nlines"}; });
  EXPECT_EQ(bug.outcome, Outcome::kBug);
  EXPECT_EQ(bug.reason, "two\nlines");
}

TEST(Sweep, EndsInTime) {
  std::set<uint64_t> numbers;
  const auto begin = std::chrono::steady_clock::now();
  sweep({.seconds = 30, .seed = 1, .most_cases = 4, .ranges = {.max_ranks = 2}},
        [&](const SweepResult& result) { numbers.insert(result.number); });
  EXPECT_EQ(numbers, (std::set<uint64_t>{0, 1, 2, 3}));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  sweep({.seconds = 0}, [](const SweepResult&) { ADD_FAILURE() << "there was no time"; });
}

TEST(Sweep, ReasonsOfOneKindAreOne) {
  EXPECT_EQ(reason_kind("a microbatch of 4 rows can not be shared by 5 ranks."),
            "a microbatch of … rows can not be shared by … ranks.");
  EXPECT_EQ(reason_kind("layout {data:0} of wte.weight: no"), "layout … of … no");
}

}  // namespace
}  // namespace trireme::parity
