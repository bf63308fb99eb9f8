// Sequences that ranks along context share: positions, targets and what a query sees are those of the whole
// sequence, and gradients are added up over context as over data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "golden.h"
#include "trireme/base/error.h"
#include "trireme/mesh/cluster_file.h"
#include "trireme/sim/simulate.h"
#include "trireme/train/parity/verify.h"
#include "trireme/train/step_programs.h"

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

std::vector<std::string> with_preset(const std::string& preset, std::vector<std::string> plans) {
  for (std::string& plan : plans) plan.replace(plan.find("PRESET"), 6, preset);
  return plans;
}

// Rounding alone, over axes, ZeRO, microbatches and stages, with dropout and in bf16.
void expect_one_ranks_results(const std::string& preset) {
  const std::vector<std::string> plans =
      with_preset(preset, {
                              R"("context:2", "preset": "PRESET")",
                              R"("context:4", "preset": "PRESET")",
                              R"("data:2 context:2", "preset": "PRESET")",
                              R"("context:2 data:2", "preset": "PRESET+zero1")",
                              R"("data:2 context:2", "preset": "PRESET+zero2")",
                              R"("data:2 context:2", "preset": "PRESET+zero3")",
                              R"("context:2 tensor:2", "preset": "PRESET+megatron")",
                              R"("context:2 tensor:2", "preset": "PRESET+megatron+sequence")",
                              R"("tensor:2 context:2", "preset": "PRESET+megatron+sequence")",
                              R"("context:2", "preset": "PRESET", "recompute": "full")",
                              R"("context:4", "preset": "PRESET", "recompute": "selective")",
                          });
  const std::vector<std::string> of_microbatches = with_preset(
      preset, {R"("context:2", "preset": "PRESET")", R"("pipe:2 context:2", "preset": "PRESET")",
               R"("pipe:2 context:4", "preset": "PRESET", "schedule": "zb_h1", "recompute": "full")",
               R"("pipe:2 context:2 tensor:2", "preset": "PRESET+megatron", "boundaries": "parts")",
               R"("data:2 context:2", "preset": "PRESET+zero2")"});
  for (const char* family : {"gpt", "llama"}) {
    Training training = training_of(family);
    expect_rounding(training, plans);
    const int64_t ranks = training.shape.sample[0] / 2;
    expect_rounding(training, {fmt::format(R"("context:{}", "preset": "{}")", ranks, preset)});
    training.model.options.dropout = 0.3;
    expect_rounding(training, {plans[1], plans[4], plans[7], plans[8], plans[9]});
    training = training_of(family, 4, 2);
    expect_rounding(training, of_microbatches);
    training.train.precision = "bf16";
    expect_rounding(training, {plans[1], plans[5], of_microbatches[1]});
  }
}

TEST(Context, DealsSequencesOutInStripes) {
  expect_one_ranks_results("context+striped");
}

TEST(Context, PassesKeysAndValuesRound) {
  expect_one_ranks_results("ring");
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

// FLOPs of attention, forward and backward, of each rank.
std::vector<double> attention_work(const Training& training, const std::string& keys) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const Plan plan = plan_of(keys);
  std::vector<double> work(plan.mesh.ranks());
  for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
    const Program program =
        step_program(training.model, training.train, training.optim, training.shape, *device, {plan, rank});
    for (const Segment& segment : program.segments) {
      for (const Node& node : segment.graph.nodes) {
        if (node.op->name.starts_with("attention") && segment.kind == SegmentKind::kForwardBackward)
          work[rank] += cost_of(segment.graph, node).flops;
      }
    }
  }
  return work;
}

double most_of_mean(const std::vector<double>& work) {
  return std::ranges::max(work) * static_cast<double>(work.size()) /
         std::accumulate(work.begin(), work.end(), 0.0);
}

// Under a causal mask the last of P runs has (2P − 1) / P of the mean, and no rank with stripes 3 % more.
TEST(Context, StripesHaveTheSameWork) {
  Training training = training_of("llama");
  for (const int64_t tokens : {512, 768}) {
    training.shape.sample = Shape{tokens};
    training.model.options.seq = tokens;
    for (const int ranks : {2, 4, 8}) {
      const std::string mesh = fmt::format(R"("context:{}", "preset": )", ranks);
      const std::vector<double> runs = attention_work(training, mesh + R"("context")"),
                                stripes = attention_work(training, mesh + R"("context+striped")");
      EXPECT_NEAR(most_of_mean(runs), (2.0 * ranks - 1) / ranks, 0.005) << ranks;
      EXPECT_LT(most_of_mean(stripes), 1.03) << ranks;
      EXPECT_LT(most_of_mean(attention_work(training, mesh + R"("ring")")), 1.03) << ranks;
      EXPECT_NEAR(std::accumulate(runs.begin(), runs.end(), 0.0),
                  std::accumulate(stripes.begin(), stripes.end(), 0.0), 1e-9 * runs[0] * ranks);
    }
  }
}

// What a step takes by the simulator, where next to nothing but attention takes time.
TEST(Context, TheSimulatorSeesTheBalance) {
  Training training = training_of("llama");
  training.shape.sample = Shape{4096};
  training.model.options.seq = 4096;
  const auto work_seconds = [&](const std::string& preset) {
    const Plan plan = plan_of(R"("context:4", "preset": ")" + preset + '"');
    const StepPrograms programs(training.model, training.train, training.optim, training.shape, plan);
    const Cluster cluster = with_hosts(read_cluster("a100"), 1);
    const sim::SimReport report =
        sim::simulate(DeviceMap(plan.mesh, cluster), [&](int rank) { return programs.rank(rank, nullptr); },
                      {.ranks = sim::SimOptions::Ranks::kAll, .plan = plan});
    std::vector<double> seconds;
    for (const sim::RankReport& rank : report.ranks) seconds.push_back(rank.time.work_seconds);
    return seconds;
  };
  EXPECT_GT(most_of_mean(work_seconds("context")), 1.2);
  const std::vector<double> stripes = work_seconds("context+striped"), ring = work_seconds("ring");
  EXPECT_LT(most_of_mean(stripes), 1.03);
  EXPECT_LT(most_of_mean(ring), 1.03);
  EXPECT_GT(ring[3], stripes[3]) << "parts have the speed of attention, and are put together besides";
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
    EXPECT_EQ(bytes_of(training, R"("context:2", "preset": "context+striped")"), gathered) << family;
    const auto exchanged = bytes_of(training, R"("context:2", "preset": "ulysses")");
    EXPECT_EQ(exchanged.at(CollectiveKind::kAllToAll),
              layers * 2 * (ranks - 1) / ranks / ranks * 2 * (heads + groups) * a_head)
        << family;
    EXPECT_EQ(exchanged.count(CollectiveKind::kAllGather) + exchanged.count(CollectiveKind::kReduceScatter),
              0u)
        << family;
  }
}

// Keys and values in their format, forward and backward; their gradients in f32.
TEST(Context, ARingSendsWhatTheFormulasSay) {
  for (const char* family : {"gpt", "llama"}) {
    for (const char* precision : {"f32", "bf16"}) {
      Training training = training_of(family, 4, 2);
      training.train.precision = precision;
      const ModelOptions& model = training.model.options;
      const double groups = static_cast<double>(model.kv_heads > 0 ? model.kv_heads : model.heads),
                   numbers =
                       static_cast<double>(training.shape.rows * training.shape.sample[0] * model.hidden) /
                       static_cast<double>(model.heads) * groups,
                   bytes = std::string(precision) == "f32" ? 4 : 2;
      for (const int ranks : {2, 4}) {
        const auto sent = bytes_of(training, fmt::format(R"("context:{}", "preset": "ring")", ranks));
        EXPECT_EQ(sent.at(CollectiveKind::kShift),
                  static_cast<double>(model.layers * (ranks - 1)) / ranks * 2 * numbers * (2 * bytes + 4))
            << family << precision << ranks;
        EXPECT_EQ(sent.size(), 1u) << family << precision;
      }
    }
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
  EXPECT_THAT(reason(training_of("gpt"), R"("context:3", "preset": "context+striped")"),
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
