// Mixtures of experts under plans: all gates, with choices that find no slot, balance and z-loss, against one
// rank. The gradient of an expert is added up over data alone; one that were added up over expert too would
// be as many times too large.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden.h"
#include "trireme/train/parity/verify.h"

namespace trireme::parity {
namespace {

Training moe_training(const char* family, const MoeOptions& moe) {
  Golden golden = read_golden(family);
  golden.train.accumulate = 1;
  golden.shape.rows = 4;
  Training training{golden.model, golden.train, golden.optim, golden.shape, {}, {}};
  training.model.options.moe = moe;
  training.model.options.moe.z_loss = 0.01;
  for (int64_t step = 0; step < 2; ++step) {
    training.batches.push_back(make_batch(golden, step));
    training.rates.push_back(golden.rates[step]);
  }
  return training;
}

void expect_equal_or_rounding(const Training& training, const std::vector<std::string>& plans) {
  Reference reference(training);
  for (const std::string& keys : plans) {
    const Result result = verify(reference, parse_plan("{\"mesh\": " + keys + "}", "plan"));
    EXPECT_TRUE(result.verdict == Verdict::kRounding || result.verdict == Verdict::kEqual)
        << keys << ": " << result.reason << " " << result.worst_tensor;
  }
}

const std::vector<std::string> kMeshes = {
    R"("data:2")",
    R"("expert:2", "preset": "expert")",
    R"("expert:4", "preset": "expert")",
    R"("data:2 expert:2", "preset": "expert")",
    R"("expert:2 data:2", "preset": "expert")",
    R"("expert:2 tensor:2", "preset": "expert+megatron")",
};

TEST(ExpertsUnderPlans, Gshard) {
  expect_equal_or_rounding(moe_training("gpt", {.experts = 4, .gate = "gshard", .capacity = 1}), kMeshes);
}
TEST(ExpertsUnderPlans, Switch) {
  expect_equal_or_rounding(moe_training("llama", {.experts = 5, .gate = "switch", .capacity = 1}), kMeshes);
}
TEST(ExpertsUnderPlans, Mixtral) {
  expect_equal_or_rounding(moe_training("llama", {.experts = 4, .gate = "mixtral", .shared = 1}), kMeshes);
}
TEST(ExpertsUnderPlans, DeepSeek) {
  expect_equal_or_rounding(moe_training("llama", {.experts = 8,
                                                  .top_k = 2,
                                                  .gate = "deepseek_v3",
                                                  .capacity = 1.25,
                                                  .shared = 1,
                                                  .expert_groups = 4,
                                                  .top_groups = 2}),
                           kMeshes);
}
TEST(ExpertsUnderPlans, WithZeroSequencePipelinesAndRecomputation) {
  expect_equal_or_rounding(
      moe_training("llama", {.experts = 4, .gate = "mixtral", .capacity = 1}),
      {R"("data:2 expert:2", "preset": "expert+zero1")", R"("data:2 expert:2", "preset": "expert+zero2")",
       R"("data:2 expert:2", "preset": "expert+zero3")",
       R"("expert:2 tensor:2", "preset": "expert+megatron+sequence")",
       R"("expert:2", "preset": "expert", "recompute": "full")"});
  Training training = moe_training("llama", {.experts = 4, .top_k = 2, .gate = "deepseek_v3", .capacity = 1});
  training.train.accumulate = 2;
  training.shape.rows = 2;
  expect_equal_or_rounding(training, {R"("pipe:2")", R"("pipe:2 expert:2", "preset": "expert")",
                                      R"("pipe:2 data:2", "preset": "zero1", "schedule": "gpipe")"});
}

// Slots go to tokens of experts in the order of groups, and come back so.
TEST(ExpertsUnderPlans, WhatIsSentIsWhatTheFormulaSays) {
  const Training training = moe_training("llama", {.experts = 4, .gate = "mixtral", .capacity = 1});
  const ModelOptions& model = training.model.options;
  const Plan plan = parse_plan(R"({"mesh": "expert:2", "preset": "expert"})", "plan");
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const Program program =
      step_program(training.model, training.train, training.optim, training.shape, *device, {plan, 0});
  double bytes = 0, count_bytes = 0;
  int calls = 0, count_calls = 0;
  for (const Segment& segment : program.segments) {
    if (segment.kind != SegmentKind::kForwardBackward) continue;
    for (const Node& node : segment.graph.nodes) {
      if (!node.op->name.starts_with("all_to_all") || !node.op->collective->sends()) continue;
      const bool counts = segment.graph.type(node.inputs[0]).dtype == DType::i32;
      ++(counts ? count_calls : calls);
      (counts ? count_bytes : bytes) += bytes_sent(*node.op, segment.graph.types_of(node.inputs),
                                                   segment.graph.types_of(node.outputs), node.attrs);
    }
  }
  const double slots = 2.0 * static_cast<double>(training.shape.rows / 2 * training.shape.sample[0]);
  EXPECT_EQ(calls, 4 * model.layers);
  EXPECT_EQ(bytes,
            4.0 * static_cast<double>(model.layers) * 0.5 * slots * static_cast<double>(model.hidden) * 4);
  // How many slots of an expert in a group have a token, once.
  const double groups = static_cast<double>(training.shape.rows) / 2;
  EXPECT_EQ(count_calls, model.layers);
  EXPECT_EQ(count_bytes, static_cast<double>(model.layers) * 0.5 * 4 * groups * sizeof(int32_t));
}

}  // namespace
}  // namespace trireme::parity
