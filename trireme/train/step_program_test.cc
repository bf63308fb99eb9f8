// How many collectives each preset owes, and how many bytes they move, counted in the programs themselves.
#include <gtest/gtest.h>

#include "trireme/base/error.h"
#include "trireme/ir/trained.h"
#include "trireme/passes/traffic.h"
#include "trireme/program/build.h"
#include "trireme/train/step.h"
#include "trireme/train/step_programs.h"

namespace trireme {
namespace {

ModelOptions small_gpt() {
  ModelOptions model;
  model.layers = 2;
  model.heads = 2;
  model.hidden = 16;
  model.vocab = 32;
  model.seq = 8;
  return model;
}

struct Calls {
  int all_reduce = 0, reduce_scatter = 0, all_gather = 0, all_to_all = 0;  // tensors
  int buckets = 0;  // collectives that several of them share, or that are under way while others run
  int calls = 0;
  double bytes = 0;  // that a rank sends, by the best algorithms
};

// One rank's segments.
std::vector<StepSegment> local_segments(const StepGraphs& whole, const Plan& plan, int rank,
                                        int64_t microbatches = 1) {
  return ProgramBuilder(whole.segments, plan, microbatches).part(rank, {}).segments;
}

Calls count(const Graph& graph) {
  Calls counts;
  for (const Node& node : graph.nodes) {
    if (!node.op->collective || !node.op->collective->sends()) continue;
    const bool started = node.op->collective->phase == OpRecord::Collective::Phase::kStart;
    const CollectiveKind kind = node.op->collective->kind;
    const int tensors = static_cast<int>(node.inputs.size());
    counts.buckets += started;
    ++counts.calls;
    counts.bytes += bytes_sent(graph, node);
    if (kind == CollectiveKind::kAllReduce) counts.all_reduce += tensors;
    if (kind == CollectiveKind::kReduceScatter) counts.reduce_scatter += tensors;
    if (kind == CollectiveKind::kAllGather) counts.all_gather += tensors;
    if (kind == CollectiveKind::kAllToAll) counts.all_to_all += tensors;
  }
  return counts;
}

struct Step {
  Calls first, next, update;
  int parameters = 0;
  double parameter_bytes = 0;
};

Step spread_step(const ModelOptions& model, const Plan& plan, int64_t accumulate = 2,
                 const std::string& precision = "f32") {
  TrainOptions train;
  train.accumulate = accumulate;
  train.precision = precision;
  const StepGraphs whole = step_graphs(model, train, {}, {4, {8}}, schedule_of(train));
  Step step;
  for (const auto& [graph, kind, rows] : local_segments(whole, plan, /*rank=*/0, accumulate)) {
    if (graph.name == "first") step.first = count(graph);
    if (graph.name == "next") step.next = count(graph);
    if (graph.name == "update") step.update = count(graph);
  }
  for (const Value& parameter : whole.parameters) {
    ++step.parameters;
    step.parameter_bytes += static_cast<double>(parameter.type.bytes());
  }
  return step;
}

Step spread_step(const std::string& preset, int ranks, int64_t accumulate = 2,
                 const std::string& precision = "f32") {
  return spread_step(small_gpt(), {Mesh({{"data", ranks}}), preset}, accumulate, precision);
}

// Loss and count, and under ZeRO the squares of the gradient: scalars of four bytes.
double scalar_bytes(int scalars, int ranks) {
  return scalars * 2.0 * (ranks - 1) / ranks * 4;
}

TEST(StepProgram, DataParallelismAddsUpGradientsOnceAStep) {
  for (const int ranks : {2, 4}) {
    const Step step = spread_step("data", ranks);
    EXPECT_EQ(step.first.bytes, 0);
    EXPECT_EQ(step.next.bytes, 0);
    EXPECT_EQ(step.update.all_reduce, step.parameters + 2);
    EXPECT_EQ(step.update.buckets, 1);  // of 4 MiB at most
    EXPECT_EQ(step.update.reduce_scatter + step.update.all_gather + step.update.all_to_all, 0);
    EXPECT_DOUBLE_EQ(step.update.bytes,
                     2.0 * (ranks - 1) / ranks * step.parameter_bytes + scalar_bytes(2, ranks));
  }
}

// Nothing is added to what one microbatch gives, so that it can be on its way while the backward part runs.
TEST(StepProgram, OneMicrobatchIsAddedUpWhereItIsMade) {
  const Step step = spread_step("data", 2, 1);
  EXPECT_EQ(step.first.all_reduce, step.parameters + 2);
  EXPECT_EQ(step.first.buckets, 1);
  EXPECT_EQ(step.update.bytes, 0);
}

TEST(StepProgram, Zero1MovesAsMuchAsDataParallelism) {
  for (const int ranks : {2, 4}) {
    const Step step = spread_step("zero1", ranks);
    EXPECT_EQ(step.first.bytes, 0);
    EXPECT_EQ(step.update.reduce_scatter, step.parameters);
    EXPECT_EQ(step.update.all_gather, step.parameters);
    EXPECT_EQ(step.update.all_reduce, 3);
    EXPECT_DOUBLE_EQ(step.update.bytes,
                     2.0 * (ranks - 1) / ranks * step.parameter_bytes + scalar_bytes(3, ranks));
  }
}

TEST(StepProgram, Zero2ScattersEachMicrobatch) {
  const Step step = spread_step("zero2", 4);
  EXPECT_EQ(step.first.reduce_scatter, step.parameters);
  EXPECT_EQ(step.next.reduce_scatter, step.parameters);
  EXPECT_EQ(step.update.reduce_scatter, 0);
  EXPECT_EQ(step.update.all_gather, step.parameters);
  // With one microbatch that is as much as data parallelism.
  const Step one = spread_step("zero2", 4, 1);
  EXPECT_DOUBLE_EQ(one.first.bytes + one.update.bytes,
                   2.0 * 3 / 4 * one.parameter_bytes + scalar_bytes(3, 4));
}

TEST(StepProgram, Zero3GathersForBothPartsAndMovesHalfAsMuchAgain) {
  const Step step = spread_step("zero3", 4, 1);
  EXPECT_EQ(step.first.reduce_scatter, step.parameters);
  EXPECT_GT(step.first.all_gather, step.parameters);
  EXPECT_EQ(step.update.all_gather, 0);
  const double plain = 2.0 * 3 / 4 * step.parameter_bytes;
  EXPECT_LE(step.first.bytes + step.update.bytes, 1.5 * plain + scalar_bytes(3, 4));
  // Biases and the position table are not needed backward, all weights are.
  EXPECT_GT(step.first.bytes + step.update.bytes, 1.4 * plain);
}

double bytes_along(const Graph& graph, std::string_view axis) {
  double bytes = 0;
  for (const Node& node : graph.nodes) {
    if (node.op->collective && node.op->collective->sends() && node.attrs.text("axis") == axis)
      bytes += bytes_sent(graph, node);
  }
  return bytes;
}

// Hybrid sharding: replicas add up the parts that ZeRO has left of gradients, once a step, and nothing else.
TEST(StepProgram, ReplicasAddUpTheirPartsOfGradientsOnceAStep) {
  for (const char* preset : {"zero1", "zero2", "zero3"}) {
    for (const int64_t accumulate : {1, 2}) {
      TrainOptions train;
      train.accumulate = accumulate;
      const StepGraphs whole = step_graphs(small_gpt(), train, {}, {4, {8}}, schedule_of(train));
      double parameter_bytes = 0, bytes = 0;
      for (const Value& parameter : whole.parameters)
        parameter_bytes += static_cast<double>(parameter.type.bytes());
      const Plan plan{Mesh({{"replica", 2}, {"data", 2}}), preset};
      for (const auto& [graph, kind, rows] : local_segments(whole, plan, /*rank=*/0, accumulate)) {
        if (graph.name == "next") {
          EXPECT_EQ(bytes_along(graph, "replica"), 0) << preset;
        }
        if (kind != SegmentKind::kEvaluate) bytes += bytes_along(graph, "replica");
      }
      EXPECT_DOUBLE_EQ(bytes, parameter_bytes / 2 + scalar_bytes(2, 2)) << preset << " " << accumulate;
    }
  }
}

// Tensors of a bucket share a call: a model of less than 4 MiB takes one for its gradients and one for its
// weights, beside the sums of scalars.
TEST(StepProgram, ZeroMakesNoMoreCallsThanItHasBuckets) {
  for (const auto& [accumulate, precision] : {std::pair(1, "f32"), {4, "f32"}, {1, "bf16"}, {4, "bf16"}}) {
    for (const char* preset : {"zero1", "zero2", "zero3"}) {
      SCOPED_TRACE(testing::Message() << preset << " " << accumulate << " " << precision);
      const Step step = spread_step(preset, 2, accumulate, precision);
      const int again = std::string_view(preset) == "zero3";  // weights for the backward part
      EXPECT_LE(step.first.calls, 3 + again);                 // weights; gradients; loss and count
      EXPECT_LE(step.next.calls, 2 + again);
      EXPECT_LE(step.update.calls, 4);  // gradients; loss and count; the norm; weights
    }
  }
}

TEST(StepProgram, SmallerBucketsAreMoreCallsOfAsManyBytes) {
  for (const char* preset : {"data", "zero1"}) {
    Plan plan{Mesh({{"data", 2}}), preset};
    const Step usual = spread_step(small_gpt(), plan, 1);
    plan.bucket_kib = 1;
    const Step small = spread_step(small_gpt(), plan, 1);
    EXPECT_GT(small.first.calls, usual.first.calls + 2) << preset;
    EXPECT_DOUBLE_EQ(small.first.bytes, usual.first.bytes) << preset;
  }
}

// With one microbatch the step gathers the weights that the last update made, ahead of their use, and keeps
// them for the backward part. With several, the update gathers them, once.
TEST(StepProgram, WeightsOfOneMicrobatchAreGatheredWhereTheyAreUsed) {
  for (const char* preset : {"zero1", "zero2"}) {
    const Step one = spread_step(preset, 2, 1), several = spread_step(preset, 2, 2);
    EXPECT_EQ(one.first.all_gather, one.parameters) << preset;
    EXPECT_EQ(one.update.all_gather, 0) << preset;
    EXPECT_EQ(several.first.all_gather + several.next.all_gather, 0) << preset;
    EXPECT_EQ(several.update.all_gather, several.parameters) << preset;
  }
  // Parameters that are not trained are whole on every rank.
  TrainOptions train;
  train.freeze = {"h.0.*"};
  const StepGraphs whole = step_graphs(small_gpt(), train, {}, {4, {8}}, schedule_of(train));
  int frozen = 0;
  for (const Value& value : whole.segments[0].graph.values)
    frozen += value.role == Role::kParameter && !is_trained(value);
  EXPECT_GT(frozen, 0);
  const Calls first = count(local_segments(whole, {Mesh({{"data", 2}}), "zero1"}, 0)[0].graph);
  EXPECT_EQ(first.all_gather, spread_step("zero1", 2, 1).parameters - frozen);
}

// LARS and LAMB scale the step of each parameter by norms over the ranks: of all parameters in one call.
TEST(StepProgram, NormsOfAllParametersAreOneCall) {
  for (const char* kind : {"lars", "lamb"}) {
    TrainOptions train;
    OptimOptions optim;
    optim.kind = kind;
    const StepGraphs whole = step_graphs(small_gpt(), train, optim, {4, {8}}, schedule_of(train));
    for (const char* preset : {"zero1", "zero2", "zero3"}) {
      const Calls update = count(local_segments(whole, {Mesh({{"data", 2}}), preset}, 0)[1].graph);
      EXPECT_GT(update.all_reduce, static_cast<int>(whole.parameters.size())) << kind << " " << preset;
      EXPECT_LE(update.calls, 3) << kind << " " << preset;  // the norm of all, those of each, weights
    }
  }
}

// Bytes of the activations between blocks, of which `ways` ranks add up theirs.
double activation_bytes(int ways, double all_reduces) {
  return all_reduces * 2.0 * (ways - 1) / ways * 4 * 8 * 16 * 4;
}
// Three numbers a token: the largest logit, the sum of exponentials, the logit that is expected.
double loss_bytes(int ways) {
  return 3 * 2.0 * (ways - 1) / ways * 4 * 8 * 4;
}

TEST(StepProgram, MegatronAddsUpTwiceABlockForwardAndTwiceBackward) {
  for (const char* family : {"gpt", "llama"}) {
    ModelOptions model = small_gpt();
    model.family = family;
    const Step step = spread_step(model, {Mesh({{"tensor", 2}}), "megatron"});
    // And once for the embedding, once backward for the head, and thrice for the loss.
    EXPECT_EQ(step.first.all_reduce, 4 * 2 + 2 + 3) << family;
    EXPECT_EQ(step.first.reduce_scatter + step.first.all_gather + step.first.all_to_all, 0) << family;
    EXPECT_DOUBLE_EQ(step.first.bytes, activation_bytes(2, 4 * 2 + 2) + loss_bytes(2)) << family;
  }
}

TEST(StepProgram, SequenceParallelismScattersAndGathersInsteadAndSendsNoMore) {
  for (const char* family : {"gpt", "llama"}) {
    ModelOptions model = small_gpt();
    model.family = family;
    model.dropout = 0.1;
    for (const int ranks : {2, 4}) {
      model.heads = ranks;
      const Step plain = spread_step(model, {Mesh({{"tensor", ranks}}), "megatron"});
      const Step step = spread_step(model, {Mesh({{"tensor", ranks}}), "megatron+sequence"});
      // Only the loss is still added up on all ranks.
      EXPECT_EQ(step.first.all_reduce, 3) << family;
      EXPECT_EQ(step.first.reduce_scatter, plain.first.all_reduce - 3 + 1)
          << family;  // the embedding's gradient
      EXPECT_EQ(step.first.all_gather, plain.first.all_reduce - 3 - 1) << family;
      EXPECT_LE(step.first.bytes, plain.first.bytes) << family;
      EXPECT_LE(step.next.bytes, plain.next.bytes) << family;
      // Gradients of what no rank has a part of: gains and biases, once a step.
      const double small = 2.0 * (ranks - 1) / ranks * 4 * 16 * (std::string(family) == "gpt" ? 14 : 5);
      EXPECT_LE(step.update.bytes, plain.update.bytes + small) << family;
    }
  }
}

TEST(StepProgram, HybridSplitsConvolutionsByBatchAndTheRestByFeatures) {
  ModelOptions model;
  model.family = "lenet";
  model.classes = 10;
  const StepGraphs whole = step_graphs(model, {}, {}, {4, {1, 28, 28}}, schedule_of({}));
  const std::vector<StepSegment> local = local_segments(whole, {Mesh({{"tensor", 2}}), "hybrid_cnn"}, 0);
  const Graph& first = local[0].graph;
  for (const Node& node : first.nodes) {
    if (node.op->name == "conv2d") {
      EXPECT_EQ(first.type(node.inputs[0]).shape[0], 2);
    }
  }
  EXPECT_EQ(first.type(first.find("conv1.weight")).shape, (Shape{6, 1, 5, 5}));
  EXPECT_EQ(first.type(first.find("fc1.weight")).shape, (Shape{60, 400}));
  EXPECT_EQ(first.type(first.find("fc3.weight")).shape, (Shape{10, 42}));
  // Rows go to the fully connected layers and come back; weights of those are not sent.
  const Calls counts = count(first);
  EXPECT_EQ(counts.all_reduce, 4 + 1 + 2);  // gradients of convolutions and of a bias, loss and count
  EXPECT_EQ(counts.all_gather, 3);
  EXPECT_EQ(counts.reduce_scatter, 3);
  const Calls update = count(local[1].graph);
  EXPECT_EQ(update.all_reduce, 1);  // the norm
}

TEST(StepProgram, BatchNormMovesNumbersPerChannelAndNoActivations) {
  ModelOptions model;
  model.family = "resnet";
  model.layers = 8;
  model.classes = 10;
  constexpr int kNorms = 7;
  const auto first = [&](int64_t groups) {
    model.batch_norm_groups = groups;
    TrainOptions train;
    train.accumulate = 2;  // or gradients are added up at once
    const StepGraphs whole = step_graphs(model, train, {}, {4, {3, 16, 16}}, schedule_of(train));
    return count(local_segments(whole, {Mesh({{"data", 2}}), "data"}, 0, 2)[0].graph);
  };
  // A sum and squares forward, two sums backward.
  const Calls synchronised = first(1);
  EXPECT_EQ(synchronised.all_reduce, 4 * kNorms);
  EXPECT_EQ(synchronised.all_gather + synchronised.reduce_scatter + synchronised.all_to_all, 0);
  // Each rank on its own: only running statistics, a mean and a variance.
  const Calls local = first(2);
  EXPECT_EQ(local.all_reduce, 2 * kNorms);
  EXPECT_EQ(local.all_gather + local.reduce_scatter + local.all_to_all, 0);
}

// Casts of weights lie as the weights do, so activations still come to the weights; and what ZeRO-3 gathers,
// it gathers in 16 bit.
TEST(StepProgram, HalfPrecisionOwesTheSameCollectives) {
  for (const auto& [mesh, preset] : {std::pair{"data:4", "zero3"},
                                     {"tensor:2", "megatron"},
                                     {"data:2 tensor:2", "megatron+sequence"},
                                     {"tensor:2 data:2", "megatron+sequence"},
                                     {"tensor:2 data:2", "megatron+zero3"}}) {
    const Plan plan{parse_mesh(mesh), preset};
    const Calls whole = spread_step(small_gpt(), plan).first,
                half = spread_step(small_gpt(), plan, 2, "bf16").first;
    EXPECT_EQ(half.all_reduce + half.reduce_scatter, whole.all_reduce + whole.reduce_scatter)
        << preset << " on " << mesh;
    EXPECT_EQ(half.all_gather, whole.all_gather) << preset << " on " << mesh;
    EXPECT_EQ(half.all_to_all, whole.all_to_all) << preset << " on " << mesh;
    EXPECT_LT(half.bytes, 0.8 * whole.bytes) << preset << " on " << mesh;
  }
}

TEST(StepProgram, StatesTakeTheirShare) {
  TrainOptions train;
  train.accumulate = 2;  // with one microbatch zero1 and zero2 split all
  const StepGraphs whole = step_graphs(small_gpt(), train, {}, {4, {8}}, schedule_of(train));
  const auto local_bytes = [&](const std::string& preset, Role role) {
    const std::vector<StepSegment> local = local_segments(whole, {Mesh({{"data", 4}}), preset}, 1, 2);
    double bytes = 0;
    for (const Value& value : local[2].graph.values) {  // update
      if (value.role == role && value.type.shape.rank() > 0) bytes += static_cast<double>(value.type.bytes());
    }
    return bytes;
  };
  double parameters = 0;
  for (const Value& parameter : whole.parameters) parameters += static_cast<double>(parameter.type.bytes());
  const auto expect = [&](const char* preset, double weights, double gradients, double moments) {
    EXPECT_DOUBLE_EQ(local_bytes(preset, Role::kParameter), weights * parameters) << preset;
    EXPECT_DOUBLE_EQ(local_bytes(preset, Role::kGradient), gradients * parameters) << preset;
    EXPECT_DOUBLE_EQ(local_bytes(preset, Role::kOptimizer), moments * 2 * parameters) << preset;
  };
  expect("data", 1, 1, 1);
  expect("zero1", 1, 1, 0.25);
  expect("zero2", 1, 0.25, 0.25);
  expect("zero3", 0.25, 0.25, 0.25);
}

// A tied head is a weight of two stages, each of which adds up a gradient of its own: not over `data` before
// the update.
TEST(StepProgram, MicrobatchesOfAPipelineSumNothingOverData) {
  for (const char* text : {R"({"mesh": "pipe:2 data:2", "preset": "data"})",
                           R"({"mesh": "pipe:2 data:2 tensor:2", "preset": "megatron"})"}) {
    const Plan plan = parse_plan(text, "test");
    TrainOptions train;
    train.accumulate = 4;
    const StepPrograms programs(small_gpt(), train, {}, {4, {8}}, plan);
    for (const int rank : {0, plan.mesh.ranks() - 1}) {
      for (const Segment& segment : programs.rank(rank, kNoWorkspace).segments) {
        if (segment.kind != SegmentKind::kForwardBackward) continue;
        for (const Node& node : segment.graph.nodes) {
          if (!node.op->collective) continue;
          EXPECT_NE(node.attrs.text("axis"), "data") << text << " rank " << rank << " " << segment.graph.name;
        }
      }
    }
  }
}

TEST(StepProgram, AllRanksHaveTheSameCollectivesInTheSameOrder) {
  // Five rows on three ranks.
  const StepGraphs whole = step_graphs(small_gpt(), {}, {}, {5, {8}}, schedule_of({}));
  const auto order = [&](int rank) {
    std::string text;
    for (const auto& [graph, kind, rows] : local_segments(whole, {Mesh({{"data", 3}}), "zero3"}, rank)) {
      for (const Node& node : graph.nodes) {
        if (node.op->collective) text += graph.values[node.outputs[0]].name + "\n";
      }
    }
    return text;
  };
  EXPECT_NE(order(0), "");
  EXPECT_EQ(order(0), order(1));
  EXPECT_EQ(order(0), order(2));
}

}  // namespace
}  // namespace trireme
