// Frozen parameters: their bits stay, the others learn as if nothing were frozen, and what is not needed is
// not there: neither gradients nor moments nor the backward nodes that lead to nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/support/error_of.h"
#include "trireme/base/error.h"
#include "trireme/ir/scope.h"
#include "trireme/models/random_batch.h"
#include "trireme/plan/plan.h"
#include "trireme/run/plan_subject.h"
#include "trireme/run/random_case.h"
#include "trireme/train/step_programs.h"
#include "trireme/train/tensor_access.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ModelOptions two_layers() {
  ModelOptions model;
  model.layers = 2;
  model.heads = 2;
  model.hidden = 16;
  model.vocab = 20;
  model.seq = 8;
  return model;
}

const StepShape kShape{4, Shape{8}};

class Freeze : public testing::Test {
 protected:
  std::unique_ptr<Trainer> make(const TrainOptions& train, const char* optimizer = "adamw") {
    OptimOptions optim;
    optim.kind = optimizer;
    auto trainer = std::make_unique<Trainer>(two_layers(), train, optim, kShape, *device_);
    trainer->initialise(1);
    return trainer;
  }
  Batch batch(int64_t step) {
    const parity::Training training = parity::random_training(config(), Shape{8}, step + 1);
    return training.batches[static_cast<size_t>(step)];
  }
  static Config config() {
    Config config;
    config.model = two_layers();
    config.train.batch = 4;
    return config;
  }
  std::map<std::string, std::vector<float>> weights(Trainer& trainer) {
    std::map<std::string, std::vector<float>> result;
    for (const std::string& name : parameter_names(trainer)) result[name] = read_tensor(trainer, name);
    return result;
  }

  std::unique_ptr<Device> device_ = make_device({.kind = "cpu", .threads = 1});
};

TrainOptions frozen(std::vector<std::string> patterns) {
  TrainOptions train;
  train.clip_norm = 0;  // the norm is that of what is trained
  train.freeze = std::move(patterns);
  return train;
}

// The reference: all is trained, and after every step the frozen ones are put back.
TEST_F(Freeze, OthersLearnAsIfTheRateOfTheFrozenWereZero) {
  for (const char* optimizer : {"adamw", "momentum", "lamb"}) {
    auto some = make(frozen({"wpe*", "h.0.*", "h.1.*.bias"}), optimizer), all = make(frozen({}), optimizer);
    const auto before = weights(*all);
    for (int64_t step = 0; step < 3; ++step) {
      Batch one = batch(step), same = batch(step);
      EXPECT_EQ(some->step(one, step, 1e-2).loss, all->step(same, step, 1e-2).loss);
      for (const auto& [name, values] : before) {
        if (fits_pattern("wpe*", name) || fits_pattern("h.0.*", name) || fits_pattern("h.1.*.bias", name))
          write_tensor(*all, name, values);
      }
    }
    const auto after = weights(*some);
    EXPECT_EQ(after, weights(*all)) << optimizer;
    EXPECT_EQ(after.at("h.0.mlp.c_fc.weight"), before.at("h.0.mlp.c_fc.weight"));
    EXPECT_EQ(after.at("h.1.attn.c_attn.bias"), before.at("h.1.attn.c_attn.bias"));
    EXPECT_NE(after.at("h.1.mlp.c_fc.weight"), before.at("h.1.mlp.c_fc.weight"));
  }
}

// The same by a group with a rate of zero, which has moments but does not move.
TEST_F(Freeze, IsAGroupWithoutARate) {
  auto some = make(frozen({"h.0.*"}));
  OptimOptions optim;
  optim.groups = {{"h.0.*", 0, std::nullopt}};
  Trainer all(two_layers(), frozen({}), optim, kShape, *device_);
  all.initialise(1);
  for (int64_t step = 0; step < 2; ++step) {
    Batch one = batch(step), same = batch(step);
    EXPECT_EQ(some->step(one, step, 1e-2).loss, all.step(same, step, 1e-2).loss);
  }
  EXPECT_EQ(weights(*some), weights(all));
}

// With the first blocks frozen, nothing is differentiated before the last one.
TEST_F(Freeze, NothingIsComputedOrKeptForThem) {
  auto some = make(frozen({"wte*", "wpe*", "h.0.*"})), all = make(frozen({}));
  for (const State& state : some->program().states) {
    if (state.role != Role::kGradient && state.role != Role::kOptimizer) continue;
    const std::string_view of = state.attrs.text("of", "");
    EXPECT_FALSE(of.starts_with("h.0.") || of.starts_with("w")) << state.name;
  }
  const Graph& first = some->program().segments[some->program().segment("first")].graph;
  for (const Value& value : first.values)
    EXPECT_FALSE(value.name.starts_with("h.0/") && has_part(scope_of(value.name), kGradientPart))
        << value.name;
  EXPECT_LT(some->program().state_bytes, all->program().state_bytes);
  EXPECT_LT(some->program().arena_bytes, all->program().arena_bytes);
  EXPECT_EQ(some->program().parameters, all->program().parameters);
  EXPECT_EQ(trained_parameters(all->program()), all->program().parameters);
  // h.1 and ln_f: 16·48 + 48, 16·16 + 16, 16·64 + 64, 64·16 + 16, and three norms of 2·16.
  EXPECT_EQ(trained_parameters(some->program()), 816 + 272 + 1088 + 1040 + 96);
  EXPECT_THAT(error_of([&] { read_gradient(*some, "wte.weight"); }), HasSubstr("frozen"));
}

// A 16-bit weight without a master would have lost bits: frozen ones stay f32.
TEST_F(Freeze, KeepsBitsBesideHalfWeights) {
  TrainOptions train = frozen({"h.0.*"});
  train.precision = train.weight_precision = "bf16";
  auto trainer = make(train);
  EXPECT_EQ(trainer->program().find_state("h.0.mlp.c_fc.weight")->type.dtype, DType::f32);
  EXPECT_EQ(trainer->program().find_state("h.1.mlp.c_fc.weight")->type.dtype, DType::bf16);
  const auto before = weights(*trainer);
  Batch one = batch(0);
  trainer->step(one, 0, 1e-2);
  EXPECT_EQ(read_tensor(*trainer, "h.0.mlp.c_fc.weight"), before.at("h.0.mlp.c_fc.weight"));
}

TEST_F(Freeze, RefusesPatternsThatFitNothingAndOnesThatFitAll) {
  EXPECT_THAT(error_of([&] {
                make(frozen({"h.0.*", "wtr.weight"}));
              }),
              AllOf(HasSubstr("train.freeze has 'wtr.weight'"), HasSubstr("did you mean 'wte.weight'?")));
  EXPECT_THAT(error_of([&] { make(frozen({"*"})); }), HasSubstr("nothing is left to train"));
}

// Neither older versions of them in an asynchronous pipeline.
TEST_F(Freeze, HasNoVersionsOfWeightsThatNeverChange) {
  ModelOptions model = two_layers();
  model.family = "llama";
  const StepPrograms programs(model, frozen({"model.layers.0.mlp.*"}), {}, kShape,
                              parse_plan(R"({"mesh":"pipe:2","schedule":"pipedream"})", "the plan"));
  int versions = 0;
  const Program program = programs.rank(0, nullptr);
  for (const State& state : program.states) {
    if (state.role != Role::kVersion) continue;
    ++versions;
    EXPECT_FALSE(state.name.find(".0.mlp.") != state.name.npos) << state.name;
  }
  EXPECT_GT(versions, 0);
}

TEST_F(Freeze, IsLessWork) {
  EXPECT_LT(model_flops(two_layers(), frozen({"wte*", "wpe*", "h.0.*"}), kShape),
            0.8 * model_flops(two_layers(), frozen({"ln_f.bias"}), kShape));
}

// Blocks of which some are frozen are not all of one kind.
TEST_F(Freeze, IsPlannedBlockByBlock) {
  Config with = config();
  with.train.freeze = {"h.1.*"};
  const planner::Subject subject = plan_subject(with, Shape{8});
  EXPECT_EQ(subject.units, subject.small_units);
  for (size_t i = 0; i < subject.kind.size(); ++i) EXPECT_EQ(subject.kind[i], static_cast<int>(i));
  EXPECT_GE(subject.kind.size(), 3u);
}

parity::Result verify_gpt(const std::string& plan, const std::vector<std::string>& more = {}) {
  parity::RandomCase one{
      "gpt",
      "f32",
      {},
      {"model.family=gpt", "model.layers=3", "model.heads=2", "model.hidden=8", "model.vocab=12",
       "model.seq=4", "train.batch=4", "optim.lr=0.001", "train.freeze=wte*,wpe*,h.0.*,h.1.*.bias"},
      plan};
  one.settings.insert(one.settings.end(), more.begin(), more.end());
  return parity::verify_case(one);
}

TEST(FreezeUnderPlans, IsWhatOneRankComputes) {
  for (
      const char* plan :
      {R"({"mesh":"data:2"})", R"({"mesh":"data:2","preset":"zero1"})",
       R"({"mesh":"data:2","preset":"zero3"})", R"({"mesh":"data:2 tensor:2","preset":"zero2+megatron"})",
       R"({"mesh":"tensor:2","preset":"megatron+sequence"})", R"({"mesh":"data:2","recompute":"full"})",
       R"({"mesh":"data:1","offload":{"optimizer":"file","folder":"/tmp"}})",
       R"({"mesh":"data:1","offload":{"optimizer":"file","weights":"file","gradients":"file","folder":"/tmp"}})"}) {
    const parity::Result result = verify_gpt(
        plan, {R"(optim.groups=[{match="*.bias",lr_scale=0.5},{match="h.2.*",weight_decay=0.3}])"});
    EXPECT_LE(result.verdict, parity::Verdict::kRounding) << plan << ": " << result.reason;
  }
}

// Stages whose weights are all frozen have no backward part.
TEST(FreezeUnderPlans, PipelinesWithStagesThatLearnNothing) {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "chimera", "zb_h1", "zb_h2", "zb_v"}) {
    const parity::Result result =
        verify_gpt(fmt::format(R"({{"mesh":"pipe:2","schedule":"{}","accumulate":2}})", schedule));
    EXPECT_LE(result.verdict, parity::Verdict::kRounding) << schedule << ": " << result.reason;
  }
  const parity::Result both =
      verify_gpt(R"({"mesh":"pipe:2 data:2 tensor:2","preset":"zero1+megatron","accumulate":2})",
                 {"train.precision=bf16", "train.weight_precision=bf16"});
  EXPECT_LE(both.verdict, parity::Verdict::kRounding) << both.reason;
}

}  // namespace
}  // namespace trireme
