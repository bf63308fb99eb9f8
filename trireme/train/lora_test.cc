// Adapters: they start without an effect, are trained alone, and merged into their weights give the same
// logits.
#include "trireme/train/lora.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/error_of.h"
#include "trireme/data/test_files.h"
#include "trireme/ir/trained.h"
#include "trireme/run/random_case.h"
#include "trireme/runtime/executor.h"
#include "trireme/train/rank_states.h"
#include "trireme/train/state_reach.h"
#include "trireme/train/tensor_access.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

ModelOptions model_of(const char* family) {
  ModelOptions model;
  model.family = family;
  model.layers = 2;
  model.heads = 2;
  model.hidden = 16;
  model.vocab = 20;
  model.seq = 8;
  return model;
}

ModelOptions with_lora(ModelOptions model, int64_t rank, double alpha,
                       std::vector<std::string> targets = {}) {
  model.lora = {rank, alpha, std::move(targets)};
  return model;
}

// B·A by hand: rank 1, A = (1, 2, 3), B = (10, 20), times 0.5.
TEST(Lora, MergesByHand) {
  const std::vector<float> a = {1, 2, 3}, b = {10, 20};
  std::vector<float> out_in(6, 1), in_out(6, 1);
  merge_adapter(out_in, a, b, 1, 0.5, Network::Store::kOutIn);
  EXPECT_THAT(out_in, testing::ElementsAre(6, 11, 16, 11, 21, 31));
  merge_adapter(in_out, a, b, 1, 0.5, Network::Store::kInOut);
  EXPECT_THAT(in_out, testing::ElementsAre(6, 11, 11, 21, 16, 31));
  EXPECT_EQ(lora_scale({.rank = 4, .alpha = 0}), 1);
  EXPECT_EQ(lora_scale({.rank = 4, .alpha = 2}), 0.5);
}

class LoraModel : public testing::TestWithParam<const char*> {
 protected:
  // Logits of a forward pass; `values` gives each state's, by name.
  template <typename Values>
  std::vector<float> logits(const ModelOptions& model, const Values& values) {
    Executor executor(
        build_program({StepSegment(forward_graph(model, {2, Shape{8}}, DType::f32), SegmentKind::kEvaluate)},
                      workspace_query(*device_)),
        *device_);
    for (const State& state : executor.program().states) write_numbers(executor, state, values(state.name));
    std::vector<int32_t> ids(16);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 7 % 20);
    executor.set_input(0, "ids", ids.data(), ids.size() * sizeof(int32_t));
    executor.run(0);
    std::vector<float> result(2 * 8 * 20);
    executor.read_output(0, "logits", result.data(), result.size() * sizeof(float));
    return result;
  }
  Batch batch(const ModelOptions& model) {
    Config config;
    config.model = model;
    config.train.batch = 4;
    return parity::random_training(config, Shape{8}, 1).batches[0];
  }

  std::unique_ptr<Device> device_ = make_device({.kind = "cpu", .threads = 1});
};

TEST_P(LoraModel, TrainedAloneAndMergedGivesTheSameLogits) {
  const ModelOptions plain = model_of(GetParam()), model = with_lora(plain, 3, 6);
  TrainOptions train;
  Trainer trainer(model, train, {}, {4, Shape{8}}, *device_);
  trainer.initialise(1);
  std::map<std::string, std::vector<float>> before, after;
  for (const std::string& name : parameter_names(trainer)) before[name] = read_tensor(trainer, name);
  const auto of = [](auto& values) { return [&](const std::string& name) { return values.at(name); }; };
  EXPECT_EQ(logits(model, of(before)), logits(plain, of(before)));  // B is zero
  Batch one = batch(model);
  for (int64_t step = 0; step < 3; ++step) trainer.step(one, step, 1e-2);
  for (const auto& [name, values] : before) {
    after[name] = read_tensor(trainer, name);
    EXPECT_EQ(after[name] == values, !is_adapter_name(name)) << name;
  }
  std::map<std::string, std::vector<float>> merged = after;
  const std::vector<AdaptedWeight> adapted = adapted_weights(model, {8});
  EXPECT_GE(adapted.size(), 8u);  // all linear layers of two blocks
  for (const auto& [weight, a, b, store] : adapted)
    merge_adapter(merged.at(weight), after.at(a), after.at(b), 3, lora_scale(model.lora), store);
  const std::vector<float> apart = logits(model, of(after)), together = logits(plain, of(merged)),
                           untouched = logits(plain, of(before));
  float difference = 0, change = 0;
  for (size_t i = 0; i < apart.size(); ++i) {
    difference = std::max(difference, std::abs(apart[i] - together[i]));
    change = std::max(change, std::abs(apart[i] - untouched[i]));
  }
  EXPECT_LT(difference, 1e-5f);
  EXPECT_GT(change, 1e-3f);
}

INSTANTIATE_TEST_SUITE_P(Families, LoraModel, testing::Values("gpt", "llama"));

TEST(Lora, TargetsChooseLayersAndOneThatIsNoneIsRefused) {
  const auto device = make_device({.kind = "cpu", .threads = 1});
  const auto adapters = [&](std::vector<std::string> targets) {
    std::vector<std::string> names;
    for (const AdaptedWeight& one :
         adapted_weights(with_lora(model_of("gpt"), 2, 0, std::move(targets)), {8}))
      names.push_back(one.weight);
    return names;
  };
  EXPECT_THAT(adapters({"*.c_attn"}),
              testing::ElementsAre("h.0.attn.c_attn.weight", "h.1.attn.c_attn.weight"));
  EXPECT_THAT(adapters({"h.1.mlp.*"}), testing::ElementsAre("h.1.mlp.c_fc.weight", "h.1.mlp.c_proj.weight"));
  EXPECT_THAT(error_of([&] { adapters({"*.q_proj"}); }),
              AllOf(HasSubstr("model.lora.targets has '*.q_proj'"), HasSubstr("fits no layer")));
}

// What starts anew beside a base is trained; the rest is the base's, and left out of checkpoints.
TEST(Lora, WhatIsInitialisedAnewIsTrainedToo) {
  const auto device = make_device({.kind = "cpu", .threads = 1});
  TrainOptions train;
  train.init_from = "elsewhere";
  train.init_fresh = {"wte*"};
  Trainer trainer(with_lora(model_of("gpt"), 2, 0, {"*.c_attn"}), train, {}, {4, Shape{8}}, *device);
  for (const State& state : trainer.program().states) {
    if (state.role != Role::kParameter) continue;
    const bool trained = state.name == "wte.weight" || is_adapter_name(state.name);
    EXPECT_EQ(is_frozen(state.role, state.attrs), !trained) << state.name;
    EXPECT_EQ(state.attrs.has(kBase), !trained) << state.name;
  }
  // Who reads weights reads all of them; checkpoints get what is trained.
  const auto names = [](const std::vector<PartView>& parts) {
    std::set<std::string> result;
    for (const PartView& part : parts) result.insert(part.name);
    return result;
  };
  const std::set<std::string> read = names(states_of(trainer).model),
                              written = names(states_to_write(trainer, {}).model);
  EXPECT_TRUE(read.contains("h.0.mlp.c_fc.weight"));
  EXPECT_THAT(written, testing::ElementsAre("h.0.attn.c_attn.lora_A.weight", "h.0.attn.c_attn.lora_B.weight",
                                            "h.1.attn.c_attn.lora_A.weight", "h.1.attn.c_attn.lora_B.weight",
                                            "wte.weight"));
  EXPECT_TRUE(std::ranges::includes(read, written));
  EXPECT_EQ(trained_parameters(trainer.program()), 20 * 16 + 2 * (2 * 16 + 48 * 2));
}

// A checkpoint has the adapters, and whoever goes on from it brings the rest.
TEST(Lora, GoesOnFromAdaptersAndTheirBase) {
  const auto device = make_device({.kind = "cpu", .threads = 1});
  TrainOptions train;
  train.init_from = "elsewhere";
  const ModelOptions model = with_lora(model_of("gpt"), 2, 0, {"*.c_attn"});
  Trainer first(model, train, {}, {4, Shape{8}}, *device), second(model, train, {}, {4, Shape{8}}, *device);
  first.initialise(1);
  second.initialise(2);
  const TempFolder folder;
  Checkpoints checkpoints(folder.path(), 1);
  save(checkpoints, {}, first);
  const std::optional<LoadedCheckpoint> saved = checkpoints.load_latest();
  EXPECT_THAT(error_of([&] { restore(second, *saved); }), HasSubstr("train.init_from"));
  restore(second, *saved, [&] {
    for (const std::string& name : parameter_names(first)) {
      if (!is_adapter_name(name)) write_tensor(second, name, read_tensor(first, name));
    }
  });
  for (const std::string& name : parameter_names(first))
    EXPECT_EQ(read_tensor(first, name), read_tensor(second, name)) << name;
}

TEST(LoraUnderPlans, IsWhatOneRankComputes) {
  for (const char* family : {"gpt", "llama"}) {
    for (const char* plan :
         {R"({"mesh":"data:2","preset":"zero3"})", R"({"mesh":"tensor:2","preset":"megatron"})",
          R"({"mesh":"tensor:2","preset":"megatron+sequence"})",
          R"({"mesh":"data:2 tensor:2","preset":"zero1+megatron"})",
          R"({"mesh":"pipe:2","schedule":"1f1b","accumulate":2})",
          R"({"mesh":"pipe:2 tensor:2","preset":"megatron","schedule":"zb_h1","accumulate":2})"}) {
      const parity::Result result =
          parity::verify_case({family,
                               "f32",
                               {},
                               {fmt::format("model.family={}", family), "model.layers=2", "model.heads=2",
                                "model.hidden=8", "model.vocab=12", "model.seq=4", "train.batch=4",
                                "optim.lr=0.01", "model.lora.rank=2", "model.lora.alpha=4"},
                               plan});
      EXPECT_LE(result.verdict, parity::Verdict::kRounding) << family << " " << plan << ": " << result.reason;
    }
  }
}

}  // namespace
}  // namespace trireme
