// Sequences that ranks along context share: positions, targets and what a query sees are those of the whole
// sequence, and gradients are added up over context as over data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "golden.h"
#include "trireme/base/error.h"
#include "trireme/train/parity/verify.h"

namespace trireme::parity {
namespace {

Training training_of(const char* family, int64_t heads = 4, int64_t accumulate = 1) {
  Golden golden = read_golden(family);
  golden.train.accumulate = accumulate;
  golden.shape.rows = 4 / accumulate;
  Training training{golden.model, golden.train, golden.optim, golden.shape, {}, {}};
  training.model.options.heads = heads;
  for (int64_t step = 0; step < 2; ++step) {
    training.batches.push_back(make_batch(golden, step));
    training.rates.push_back(golden.rates[step]);
  }
  return training;
}

Plan plan_of(const std::string& keys) {
  return parse_plan("{\"mesh\": " + keys + "}", "plan");
}

void expect_rounding(const Training& training, const std::vector<std::string>& plans) {
  Reference reference(training);
  for (const std::string& keys : plans) {
    const Result result = verify(reference, plan_of(keys));
    EXPECT_EQ(result.verdict, Verdict::kRounding) << keys << ": " << result.reason << result.worst_tensor;
  }
}

TEST(Context, GathersKeysAndValues) {
  const std::vector<std::string> plans = {
      R"("context:2", "preset": "context")",
      R"("context:4", "preset": "context")",
      R"("context:3", "preset": "context")",  // 16 tokens of gpt: parts of unlike size
      R"("data:2 context:2", "preset": "context")",
      R"("context:2 data:2", "preset": "context+zero1")",
      R"("data:2 context:2", "preset": "context+zero2")",
      R"("data:2 context:2", "preset": "context+zero3")",
      R"("context:2 tensor:2", "preset": "context+megatron")",
      R"("context:2 tensor:2", "preset": "context+megatron+sequence")",
      R"("context:2", "preset": "context", "recompute": "full")",
  };
  expect_rounding(training_of("gpt"), plans);
  expect_rounding(training_of("llama"), plans);  // two heads of keys for four of queries
}

TEST(Context, ExchangesSequencesForHeads) {
  const std::vector<std::string> plans = {
      R"("context:2", "preset": "ulysses")",
      R"("data:2 context:2", "preset": "ulysses")",
      R"("context:2 data:2", "preset": "ulysses+zero3")",
      R"("context:2", "preset": "ulysses", "recompute": "full")",
  };
  expect_rounding(training_of("gpt"), plans);
  expect_rounding(training_of("gpt"), {R"("context:4", "preset": "ulysses")",
                                       R"("context:2 tensor:2", "preset": "ulysses+megatron")",
                                       R"("tensor:2 context:2", "preset": "ulysses+megatron")"});
  expect_rounding(training_of("llama"), plans);
}

TEST(Context, GoesWithMicrobatchesAndPipelines) {
  for (const char* family : {"gpt", "llama"}) {
    expect_rounding(training_of(family, 4, 2),
                    {R"("context:2", "preset": "context")", R"("context:2", "preset": "ulysses")",
                     R"("pipe:2 context:2", "preset": "context")",
                     R"("pipe:2 context:2", "preset": "ulysses", "schedule": "gpipe")",
                     R"("data:2 context:2", "preset": "context+zero2")"});
  }
}

// Bytes of one rank in the forward and backward part of a microbatch.
std::map<CollectiveKind, double> bytes_of(const Training& training, const std::string& keys) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const Program program = step_program(training.model, training.train, training.optim, training.shape,
                                       *device, {plan_of(keys), 0});
  std::map<CollectiveKind, double> bytes;
  const Graph& graph =
      std::ranges::find(program.segments, SegmentKind::kForwardBackward, &Segment::kind)->graph;
  for (const Node& node : graph.nodes) {
    if (node.op->collective && node.op->collective->sends())
      bytes[node.op->collective->kind] +=
          bytes_sent(*node.op, graph.types_of(node.inputs), graph.types_of(node.outputs), node.attrs);
  }
  return bytes;
}

// With several microbatches gradients are added up in the update: what is sent here is attention's alone.
TEST(Context, SendsWhatTheFormulasSay) {
  for (const char* family : {"gpt", "llama"}) {
    const Training training = training_of(family, 4, 2);
    const ModelOptions& model = training.model.options;
    const double heads = static_cast<double>(model.heads),
                 groups = static_cast<double>(model.kv_heads > 0 ? model.kv_heads : model.heads);
    const double a_head = static_cast<double>(training.shape.rows * training.shape.sample[0] * model.hidden) /
                          heads * sizeof(float);
    const double layers = static_cast<double>(model.layers), ranks = 2;
    const auto gathered = bytes_of(training, R"("context:2", "preset": "context")");
    EXPECT_EQ(gathered.at(CollectiveKind::kAllGather), layers * (ranks - 1) / ranks * 2 * groups * a_head)
        << family;
    EXPECT_EQ(gathered.at(CollectiveKind::kReduceScatter), layers * (ranks - 1) / ranks * 2 * groups * a_head)
        << family;
    EXPECT_EQ(gathered.count(CollectiveKind::kAllToAll), 0u) << family;
    const auto exchanged = bytes_of(training, R"("context:2", "preset": "ulysses")");
    EXPECT_EQ(exchanged.at(CollectiveKind::kAllToAll),
              layers * 2 * (ranks - 1) / ranks / ranks * 2 * (heads + groups) * a_head)
        << family;
    EXPECT_EQ(exchanged.count(CollectiveKind::kAllGather) + exchanged.count(CollectiveKind::kReduceScatter),
              0u)
        << family;
  }
}

TEST(Context, RefusesWhatItCanNotSplit) {
  const auto reason = [](const Training& training, const std::string& keys) {
    Reference reference(training);
    return verify(reference, plan_of(keys)).reason;
  };
  EXPECT_THAT(reason(training_of("llama"), R"("context:4", "preset": "ulysses")"),
              testing::HasSubstr("2 heads of keys and values, which can not be shared evenly by 4 ranks"));
  EXPECT_THAT(reason(training_of("gpt", 3), R"("context:3", "preset": "ulysses")"),
              testing::HasSubstr("16 tokens can not be split evenly over 3 ranks"));
  EXPECT_THAT(reason(training_of("lstm"), R"("context:2", "preset": "context")"),
              testing::HasSubstr("this model has no attention"));
  EXPECT_THAT(reason(training_of("resnet20"), R"("context:2", "preset": "context")"),
              testing::HasSubstr("[rows, tokens] expected"));
  Training mixture = training_of("llama");
  mixture.model.options.moe.experts = 4;
  EXPECT_THAT(reason(mixture, R"("context:2", "preset": "context")"),
              testing::HasSubstr("tokens of a routing group compete for slots"));
}

}  // namespace
}  // namespace trireme::parity
