// Every method against itself written out (train/parity/written_methods.h), step by step from what the ranks
// kept; error feedback loses nothing; what keeps everything is the dense sum; bytes on the wire are those
// that the method says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/exchange/ranks.h"
#include "tests/support/error_of.h"
#include "trireme/exchange/choice.h"
#include "trireme/ops/table.h"
#include "trireme/program/text.h"
#include "trireme/program/verify.h"
#include "trireme/train/parity/written_methods.h"

namespace trireme::testing {
namespace {

using parity::Doubles;
using parity::Exchanged;

struct MethodCase {
  std::string name, method;
  std::map<std::string, double> settings;
  std::string words = "";  // more of the rule
  double tolerance = 2e-5;

  std::string json() const {
    std::string text = fmt::format(R"({{"method": "{}"{})", method, words);
    for (const auto& [key, value] : settings) text += fmt::format(R"(, "{}": {})", key, value);
    return text + "}";
  }
};

std::vector<MethodCase> method_cases() {
  return {{"bf16", "all_reduce", {}, R"(, "wire": "bf16")", 0.02},
          {"f16", "all_reduce", {}, R"(, "wire": "f16")", 0.005},
          {"top_k", "top_k", {{"ratio", 0.1}}},
          {"top_k_without_feedback", "top_k", {{"ratio", 0.1}, {"feedback", 0}}},
          {"top_k_of_all", "top_k", {{"ratio", 1}}},
          {"top_k_rice", "top_k", {{"ratio", 0.1}}, R"(, "code": "rice")"},
          {"dgc_rice", "dgc", {{"ratio", 0.05}}, R"(, "code": "rice")"},
          {"dgc", "dgc", {{"ratio", 0.05}}},
          {"dgc_nesterov", "dgc", {{"ratio", 0.05}, {"nesterov", 1}}},
          {"dgc_without_masking", "dgc", {{"ratio", 0.05}, {"masking", 0}, {"momentum", 0.5}}},
          {"dgc_warm_up", "dgc", {{"ratio", 0.05}, {"warmup", 2}}},
          {"dgc_sampled", "dgc", {{"ratio", 0.05}, {"sampled", 0.2}}},
          {"power_sgd", "power_sgd", {{"rank", 1}}, "", 1e-4},
          {"power_sgd_2", "power_sgd", {{"rank", 2}}, "", 1e-4},
          {"one_bit", "one_bit", {}},
          {"one_bit_adam", "one_bit_adam", {{"warmup", 1}}, "", 2e-4},
          {"threshold", "threshold", {{"threshold", 0.01}}},
          {"terngrad", "terngrad", {{"seed", 5}}},
          {"terngrad_unclipped", "terngrad", {{"clip", 0}}},
          {"qsgd", "qsgd", {{"bits", 4}, {"bucket", 16}}},
          {"qsgd_elias", "qsgd", {{"bits", 4}, {"bucket", 16}}, R"(, "code": "elias")"},
          {"atomo", "atomo", {{"rank", 1}, {"seed", 4}}, "", 1e-4},
          {"atomo_2", "atomo", {{"rank", 2}}, "", 1e-4},
          {"shared_pattern", "shared_pattern", {{"ratio", 0.2}, {"block", 16}}},
          {"pruned_ring", "pruned_ring", {{"ratio", 0.1}}},
          {"pruned_ring_of_all", "pruned_ring", {{"ratio", 1}}},
          {"signum", "signum", {}}};
}

void PrintTo(const MethodCase& one, std::ostream* out) {
  *out << one.json();
}

class Method : public ::testing::TestWithParam<MethodCase> {};
INSTANTIATE_TEST_SUITE_P(All, Method, ::testing::ValuesIn(method_cases()),
                         [](const auto& tested) { return tested.param.name; });

// The settings of the case as the plan makes them.
ExchangeChoice choice_of(const MethodCase& one) {
  return exchange_choices(plan_of("data:2", one.json()).agreement).at(0);
}

// A gpt that does not fly apart by steps whose size is not the gradient's.
Training gpt_for(const MethodCase& one) {
  Training training = small_gpt();
  if (choice_of(one).method->direction == ExchangeMethod::Direction::kOwnSteps) training.rate = 1e-3;
  return training;
}

std::vector<Doubles> to_doubles(const std::vector<Floats>& of_ranks) {
  std::vector<Doubles> result;
  for (const Floats& values : of_ranks) result.emplace_back(values.begin(), values.end());
  return result;
}

double largest(const Doubles& values) {
  double most = 0;
  for (double value : values) most = std::max(most, std::abs(value));
  return most;
}

std::string kept_name(const std::string& what, const std::string& parameter) {
  return "exchange." + what + "." + parameter;
}

// By what they are.
std::map<std::string, std::vector<Doubles>> kept_of(const std::map<std::string, std::vector<Floats>>& states,
                                                    const std::string& parameter) {
  std::map<std::string, std::vector<Doubles>> result;
  for (const auto& [name, of_ranks] : states) {
    for (const char* what :
         {"residual", "velocity", "waiting", "power_right", "owner_residual", "momentum", "variance"}) {
      if (name == kept_name(what, parameter)) result[what] = to_doubles(of_ranks);
    }
  }
  return result;
}

void expect_near(const Floats& found, const Doubles& expected, double bound, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_NEAR(static_cast<double>(found[i]), expected[i], bound) << what << ", element " << i;
}

// Of one step and parameter.
void expect_step(const MethodCase& one, const History& run, int64_t step, const std::string& parameter,
                 double rate) {
  const StepRecord& record = run.steps[step];
  const ExchangeChoice choice = choice_of(one);
  Exchanged x{parameter,
              run.shapes.at(parameter),
              step + 1,
              to_doubles(record.gradients.at(parameter)),
              kept_of(record.kept_before, parameter),
              {}};
  const bool compressed =
      x.shape.rank() >= 2 && (!choice.method->pays || choice.method->pays(x.shape, choice.settings));
  if (one.settings.contains("feedback")) {
    EXPECT_TRUE(x.kept.empty());
  }
  static const ExchangeChoice dense = choice_of(MethodCase{"dense", "all_reduce", {}});
  const bool is_its = compressed || choice.method->takes == ExchangeMethod::Takes::kAll;
  parity::run_written(is_its ? choice : dense, x);
  const std::string what = fmt::format("{}, step {}", parameter, step + 1);
  Doubles expected;
  const Floats& before = record.weights_before.at(parameter);
  for (size_t i = 0; i < before.size(); ++i)
    expected.push_back(static_cast<double>(before[i]) - rate * x.sum[i]);
  const double bound = rate * one.tolerance * largest(x.sum) + 3e-7 * largest({before.begin(), before.end()});
  expect_near(record.weights_after.at(parameter), expected, bound, what);
  for (const auto& [name, of_ranks] : x.kept) {
    for (size_t p = 0; p < of_ranks.size(); ++p)
      expect_near(record.kept_after.at(kept_name(name, parameter))[p], of_ranks[p],
                  one.tolerance * (largest(of_ranks[p]) + largest(x.sum)),
                  fmt::format("{} of {} on rank {}", name, what, p));
  }
}

TEST_P(Method, DoesWhatItSays) {
  for (const int ranks : {2, 3}) {
    const Training training = small_mlp();
    const History run = record_of(plan_of(fmt::format("data:{}", ranks), GetParam().json()), training);
    for (int64_t step = 0; step < training.steps; ++step) {
      for (const auto& [parameter, shape] : run.shapes)
        expect_step(GetParam(), run, step, parameter, training.rate);
    }
  }
}

// Microbatches, and a scale on the loss that changes nothing but what is kept meanwhile.
TEST_P(Method, DoesTheSameWithMicrobatchesAndALossScale) {
  Training training = small_mlp();
  training.train.accumulate = 2;
  training.loss_scale = 64;
  const History run = record_of(plan_of("data:2", GetParam().json()), training);
  for (int64_t step = 0; step < training.steps; ++step) {
    for (const auto& [parameter, shape] : run.shapes)
      expect_step(GetParam(), run, step, parameter, training.rate);
  }
}

// What is agreed on in all steps, and what is left of all ranks in the end, is the sum of all gradients.
TEST_P(Method, LosesNothingWhereItKeepsWhatItDoesNotSend) {
  const MethodCase& one = GetParam();
  if (choice_of(one).method->direction == ExchangeMethod::Direction::kOwnSteps)
    return;  // what is left of momenta is not left of gradients
  Training training = small_mlp();
  training.steps = 6;
  const History run = record_of(plan_of("data:3", one.json()), training);
  for (const auto& [parameter, shape] : run.shapes) {
    const auto kept = kept_of(run.steps.back().kept_after, parameter);
    if (!kept.contains("residual")) continue;
    Doubles all(shape.elements(), 0), given(shape.elements(), 0);
    for (const StepRecord& record : run.steps) {
      for (const Floats& gradient : record.gradients.at(parameter)) {
        for (size_t i = 0; i < all.size(); ++i) given[i] += static_cast<double>(gradient[i]);
      }
      for (size_t i = 0; i < all.size(); ++i)
        all[i] += (static_cast<double>(record.weights_before.at(parameter)[i]) -
                   static_cast<double>(record.weights_after.at(parameter)[i])) /
                  training.rate;
    }
    for (const Doubles& residual : kept.at("residual")) {
      for (size_t i = 0; i < all.size(); ++i) all[i] += residual[i];
    }
    if (kept.contains("owner_residual")) {
      size_t i = 0;
      for (const Doubles& of_owner : kept.at("owner_residual")) {
        for (double value : of_owner) {
          if (i < all.size()) all[i++] += value;
        }
      }
    }
    for (size_t i = 0; i < all.size(); ++i)
      ASSERT_NEAR(all[i], given[i], 1e-4 * largest(given)) << parameter << ", element " << i;
  }
}

// Of a gpt, whose every dim is a multiple of the ranks: what the transport counted is what the programs
// promise, and that is what the method says of matrices, the dense sum of the rest, and a few numbers.
TEST_P(Method, SendsTheBytesThatItSays) {
  const int64_t ranks = 4;
  Training training = gpt_for(GetParam());
  training.steps = 3;
  const Plan plan = plan_of("data:4", GetParam().json());
  const History run = record_of(plan, training);
  const ExchangeChoice choice = choice_of(GetParam());
  double expected = 0;
  for (const auto& [parameter, shape] : run.shapes) {
    const bool compressed =
        shape.rank() >= 2 && (!choice.method->pays || choice.method->pays(shape, choice.settings));
    expected += static_cast<double>(ranks) *
                (compressed ? choice.method->bytes(shape, ranks, choice.settings)
                            : bytes_of_sum(ranks, 4.0 * static_cast<double>(shape.elements())));
  }
  // Loss, count, and whether all is finite. Two of them are one message, in which each has a line of memory;
  // of dgc, which needs the count for no more than what it keeps, all three, but for its early steps.
  const double each_byte = 2.0 * (ranks - 1), joined = GetParam().method == "dgc" ? 2 : 1;
  const double lines = run.steps.back().bytes_promised - expected - each_byte * 3 * 4;
  EXPECT_THAT(lines / (each_byte * 60), ::testing::AnyOf(joined, 1.0));
  for (const StepRecord& step : run.steps) EXPECT_NEAR(step.bytes_sent, step.bytes_promised, 0.5);
}

// On a step that must be skipped nothing moves.
TEST_P(Method, KeepsItsStatesWhereAStepIsSkipped) {
  Training training = small_mlp();
  training.train.max_skipped = 10;
  training.steps = 2;
  training.loss_scale = 3e38;
  const History run = record_of(plan_of("data:2", GetParam().json()), training);
  for (const StepRecord& record : run.steps) {
    EXPECT_TRUE(record.result.skipped);
    EXPECT_EQ(record.weights_after, record.weights_before);
    EXPECT_EQ(record.kept_after, record.kept_before);
  }
}

// Where the optimizer's states are split, each rank takes its part of the same sum; gradients stay whole. Of
// split weights ranks have parts: losses tell of those.
TEST_P(Method, GivesTheSameBitsWithZero) {
  Training training = gpt_for(GetParam());
  training.train.accumulate = 2;
  const History whole = record_of(plan_of("data:2", GetParam().json()), training);
  for (const char* preset : {"zero1", "zero2", "zero3"}) {
    const History split = record_of(plan_of("data:2", GetParam().json(), preset), training);
    if (preset != std::string("zero3")) {
      EXPECT_EQ(weights(whole), weights(split)) << preset;
    }
    EXPECT_EQ(whole.steps.back().kept_after, split.steps.back().kept_after) << preset;
    for (size_t step = 0; step < whole.steps.size(); ++step)
      EXPECT_EQ(whole.steps[step].result.loss, split.steps[step].result.loss) << preset << step;
  }
}

void expect_same_bits_in_stages(const MethodCase& method, const Training& training, const char* schedule) {
  const History whole = record_of(plan_of("data:2", method.json()), training);
  Plan plan = plan_of("pipe:2 data:2", method.json());
  plan.schedule = schedule;
  const History cut = record_of(plan, training);
  EXPECT_EQ(weights(whole), weights(cut));
  EXPECT_EQ(cut.steps.back().result.norm, whole.steps.back().result.norm);
  for (const auto& [name, of_ranks] : cut.steps.back().kept_after) {
    for (size_t rank = 0; rank < of_ranks.size(); ++rank) {
      if (of_ranks[rank].empty()) continue;  // another stage has it
      EXPECT_EQ(of_ranks[rank], whole.steps.back().kept_after.at(name)[rank % 2]) << name;
    }
  }
}

// A stage compresses the gradients that it has; what methods take of all gradients (the norm of what a rank
// adds) is of all stages. The head is tied, so that two stages compress one gradient; of several microbatches
// that would be added up in another order.
TEST_P(Method, GivesTheSameBitsInAPipeline) {
  if (!early_ends({choice_of(GetParam())}).empty()) GTEST_SKIP() << "a warm-up is refused";
  expect_same_bits_in_stages(GetParam(), gpt_for(GetParam()), "1f1b");
}

// Two stages add up the gradients of each chunk.
TEST_P(Method, GivesTheSameBitsWhereTwoStagesHoldAChunk) {
  if (!early_ends({choice_of(GetParam())}).empty()) GTEST_SKIP() << "a warm-up is refused";
  Training training = small_mlp();
  training.rate = gpt_for(GetParam()).rate;
  training.train.accumulate = 2;
  expect_same_bits_in_stages(GetParam(), training, "chimera");
}

// A norm is then a sum of the ranks' parts, made in another order: the step is scaled by the same but for
// rounding.
TEST_P(Method, WithZero1AndClippingDiffersByRoundingAlone) {
  if (choice_of(GetParam()).method->direction == ExchangeMethod::Direction::kOwnSteps)
    GTEST_SKIP() << "has steps of a size of their own and refuses clipping";
  Training training = gpt_for(GetParam());
  training.steps = 1;  // of the next one, what is selected may differ
  training.train.clip_norm = 0.1;
  const StepRecord whole = record_of(plan_of("data:2", GetParam().json()), training).steps[0],
                   split = record_of(plan_of("data:2", GetParam().json(), "zero1"), training).steps[0];
  EXPECT_GT(whole.result.norm, training.train.clip_norm);
  EXPECT_NEAR(split.result.norm, whole.result.norm, 1e-6 * whole.result.norm);
  for (const auto& [name, before] : whole.weights_before) {
    const Floats &one = whole.weights_after.at(name), &other = split.weights_after.at(name);
    double moved = 0;
    for (size_t i = 0; i < before.size(); ++i)
      moved = std::max(moved, static_cast<double>(std::abs(one[i] - before[i])));
    // Weights of about 0.1 are rounded to 1e-8.
    for (size_t i = 0; i < before.size(); ++i) ASSERT_NEAR(other[i], one[i], 1e-4 * moved + 3e-8) << name;
  }
}

TEST(Exchange, OfEverythingIsTheDenseSumBitForBit) {
  for (const char* precision : {"f32", "bf16"}) {
    for (const double clip : {0.0, 0.1}) {
      Training training = small_gpt();
      training.train.precision = precision;
      training.train.clip_norm = clip;
      training.optim.kind = "adamw";
      training.rate = 1e-2;
      const auto dense = weights(record_of(plan_of("data:2", R"("all_reduce")"), training));
      const auto split =
          weights(record_of(plan_of("data:2 tensor:2", R"("all_reduce")", "megatron"), training));
      for (const char* method : {"top_k", "pruned_ring"}) {
        const std::string all = fmt::format(R"({{"method": "{}", "ratio": 1}})", method);
        EXPECT_EQ(weights(record_of(plan_of("data:2", all), training)), dense) << precision << method;
        EXPECT_EQ(weights(record_of(plan_of("data:2 tensor:2", all, "megatron"), training)), split)
            << precision << method;
      }
    }
  }
}

// Each stage has an update of its own there.
TEST(Exchange, OfEverythingInAnAsynchronousPipelineIsTheDenseSumBitForBit) {
  Training training = small_mlp();
  for (const char* schedule : {"pipedream", "2bw"}) {
    training.train.accumulate = schedule == std::string("2bw") ? 2 : 1;
    const auto trained = [&](const char* exchange) {
      Plan plan = plan_of("pipe:2 data:2", exchange);
      plan.schedule = schedule;
      return weights(record_of(plan, training));
    };
    EXPECT_EQ(trained(R"({"method": "top_k", "ratio": 1})"), trained(R"("all_reduce")")) << schedule;
  }
}

TEST(Exchange, OfFullRankIsTheDenseSumButForRounding) {
  Training training = small_mlp();
  training.steps = 1;
  const History dense = record_of(plan_of("data:2", R"("all_reduce")"), training);
  for (const auto& [parameter, shape] : dense.shapes) {
    if (shape.rank() < 2) continue;
    const int64_t rank = std::min(shape[0], shape[1]);
    const History run = record_of(
        plan_of("data:2",
                fmt::format(R"({{"method": "power_sgd", "rank": {}, "for": "{}"}})", rank, parameter)),
        training);
    const Floats& expected = weights(dense).at(parameter);
    expect_near(weights(run).at(parameter), {expected.begin(), expected.end()}, 1e-5, parameter);
  }
}

// What goes round is two messages in each hop: their ends are held against each other.
TEST(Exchange, ARingOfMessagesIsVerified) {
  const Training training = small_mlp();
  const Plan plan = plan_of("data:3", R"("pruned_ring")");
  const std::unique_ptr<Device> device = make_cpu_device(1);
  std::vector<Program> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    const Program program = step_program(training.model, training.train, training.optim, training.shape,
                                         *device, {plan, rank, nullptr});
    ranks.push_back(parse_program(print(program), ops()));
  }
  EXPECT_EQ(error_of([&] { verify(ranks); }), "no error");
  for (Segment& segment : ranks[1].segments) {
    for (Node& node : segment.graph.nodes) {
      const auto& collective = node.op->collective;
      if (collective && collective->kind == CollectiveKind::kShift) node.attrs.set("to", int64_t{0});
    }
  }
  EXPECT_THAT(error_of([&] { verify(ranks); }), ::testing::HasSubstr("from rank 1 to rank 0, message 1"));
}

// Parameters by name; the others stay dense.
TEST(Exchange, IsOfTheParametersThatItNames) {
  const Training training = small_gpt();
  const History run = record_of(
      plan_of("data:2",
              R"([{"method": "top_k", "ratio": 0.1, "for": "h.0.*"}, {"method": "one_bit", "for": "wte*"}])"),
      training);
  bool top_k = false, one_bit = false;
  for (const auto& [name, of_ranks] : run.steps[0].kept_after) {
    EXPECT_THAT(name, ::testing::AnyOf(::testing::HasSubstr(".h.0."), ::testing::HasSubstr(".wte"))) << name;
    top_k |= name.starts_with("exchange.residual.h.0.");
    one_bit |= name.starts_with("exchange.owner_residual.wte");
  }
  EXPECT_TRUE(top_k && one_bit);
}

// Over all stages of a warm-up, with nothing read back on the way: what a rank keeps is only ever what the
// equations make of all gradients so far.
TEST(Exchange, DgcOverManyStepsIsWhatItsEquationsSay) {
  constexpr size_t kRanks = 3;
  Training training = small_mlp();
  training.steps = 12;
  training.rate = 0.1;
  for (const bool masks : {true, false}) {
    MethodCase dgc{"", "dgc", {{"ratio", 0.05}, {"warmup", 6}}};
    if (!masks) dgc.settings["masking"] = 0;
    const History run = record_of(plan_of("data:3", dgc.json()), training);
    for (const auto& [parameter, shape] : run.shapes) {
      const std::vector<Doubles> nothing(kRanks, Doubles(static_cast<size_t>(shape.elements())));
      Exchanged x{parameter, shape, 0, {}, {{"velocity", nothing}, {"waiting", nothing}}, {}};
      const Floats& start = run.steps[0].weights_before.at(parameter);
      Doubles expected(start.begin(), start.end());
      for (const StepRecord& record : run.steps) {
        ++x.step;
        x.gradients = to_doubles(record.gradients.at(parameter));
        parity::run_written(choice_of(shape.rank() >= 2 ? dgc : MethodCase{"dense", "all_reduce", {}}), x);
        for (size_t i = 0; i < expected.size(); ++i) expected[i] -= training.rate * x.sum[i];
        expect_near(record.weights_after.at(parameter), expected, 3e-6,
                    fmt::format("{}, step {}", parameter, x.step));
      }
    }
  }
}

// Momentum that is corrected is the optimizer's, where nothing waits and nothing is masked.
TEST(Exchange, DgcOfEverythingIsMomentum) {
  Training training = small_mlp();
  training.steps = 8;
  training.rate = 0.1;
  Training momentum = training;
  momentum.optim.kind = "momentum";
  const History dense = record_of(plan_of("data:3", R"("all_reduce")"), momentum),
                run = record_of(
                    plan_of("data:3", R"({"method": "dgc", "ratio": 1, "masking": false, "for": "*"})"),
                    training);
  for (const auto& [parameter, expected] : weights(dense))
    expect_near(weights(run).at(parameter), {expected.begin(), expected.end()}, 3e-6, parameter);
}

// A clipped and an unclipped gradient differ by a factor that all ranks agree on.
TEST(Exchange, DgcClipsWhatARankAdds) {
  Training training = small_mlp();
  training.steps = 1;
  const auto moved = [&](const char* clip) {
    return record_of(plan_of("data:2", fmt::format(R"({{"method": "dgc", "ratio": 1, "clip": {}}})", clip)),
                     training)
        .steps[0];
  };
  const StepRecord free = moved("0"), clipped = moved("0.001");
  std::vector<double> squares(2, 0);
  for (const auto& [parameter, of_ranks] : free.gradients) {
    if (!free.kept_after.contains(kept_name("waiting", parameter))) continue;
    for (size_t p = 0; p < 2; ++p) {
      for (float value : of_ranks[p]) squares[p] += static_cast<double>(value) * static_cast<double>(value);
    }
  }
  for (const auto& [parameter, of_ranks] : clipped.gradients) {
    if (!free.kept_after.contains(kept_name("waiting", parameter))) continue;
    for (size_t i = 0; i < of_ranks[0].size(); ++i) {
      double sum = 0;
      for (size_t p = 0; p < 2; ++p)
        sum += static_cast<double>(of_ranks[p][i]) *
               std::min(1.0, 0.001 / std::sqrt(2.0) / std::sqrt(squares[p]));
      ASSERT_NEAR((static_cast<double>(clipped.weights_before.at(parameter)[i]) -
                   static_cast<double>(clipped.weights_after.at(parameter)[i])) /
                      training.rate,
                  sum, 1e-6);
    }
  }
}

}  // namespace
}  // namespace trireme::testing
