// Work and depth against the published closed forms, paths through parts, rooflines, and how evenly ranks are
// loaded.
#include "trireme/sim/parallelism.h"

#include <gtest/gtest.h>

#include <cmath>

#include "trireme/ir/builder.h"
#include "trireme/mesh/cluster_file.h"
#include "trireme/ops/table.h"
#include "trireme/train/step_programs.h"

namespace trireme::sim {
namespace {

using Ints = std::vector<int64_t>;

struct WorkAndDepth {
  double work, depth;
};

WorkAndDepth of(std::string_view op, const std::vector<Shape>& shapes, Attrs attrs = {}) {
  Builder b(ops(), "one");
  std::vector<ValueId> inputs;
  for (const Shape& shape : shapes)
    inputs.push_back(b.input("x" + std::to_string(inputs.size()), {DType::f32, shape}, Role::kBatch));
  b.node(op, inputs, std::move(attrs));
  const Graph graph = b.take();
  return {cost_of(graph, graph.nodes[0]).flops, depth_of(graph, graph.nodes[0])};
}

// The published forms count a multiplication and the addition that follows it as one; FLOPs are two.
TEST(WorkAndDepth, AreThePublishedForms) {
  const double n = 32, c_in = 64, c_out = 96, h = 14, w = 10, k = 3;
  const WorkAndDepth activation = of("relu", {{32, 64, 14, 10}});
  EXPECT_EQ(activation.work, n * c_in * h * w);
  EXPECT_EQ(activation.depth, 1);
  const WorkAndDepth connected = of("matmul", {{32, 64}, {64, 96}});
  EXPECT_EQ(connected.work / 2, c_out * c_in * n);
  EXPECT_EQ(connected.depth, std::log2(c_in));
  const WorkAndDepth convolution =
      of("conv2d", {{32, 64, 14, 10}, {96, 64, 3, 3}},
         {{"stride", Ints{1, 1}}, {"padding", Ints{1, 1}}, {"dilation", Ints{1, 1}}});
  EXPECT_EQ(convolution.work / 2, n * c_out * c_in * h * w * k * k);
  EXPECT_DOUBLE_EQ(convolution.depth, std::log2(k) + std::log2(k) + std::log2(c_in));
}

TEST(WorkAndDepth, ReductionsAreAsDeepAsTheirTrees) {
  EXPECT_EQ(of("sum", {{8, 64}}, {{"dims", Ints{1}}}).depth, 6);
  EXPECT_EQ(of("softmax", {{8, 256}}).depth, 8);
  EXPECT_EQ(of("transpose", {{8, 256}}, {{"perm", Ints{1, 0}}}).depth, 1);
  EXPECT_EQ(of("total_squares", {{64}, {8, 4}, {32}}).depth, 7);
  EXPECT_EQ(of("reshape", {{8, 256}}, {{"shape", Ints{2048}}}).depth, 0);
  // The gradient of weights is a sum over rows and pixels.
  EXPECT_DOUBLE_EQ(
      of("conv2d_grad_weight", {{32, 96, 14, 10}, {32, 64, 14, 10}},
         {{"stride", Ints{1, 1}}, {"padding", Ints{1, 1}}, {"dilation", Ints{1, 1}}, {"kernel", Ints{3, 3}}})
          .depth,
      std::log2(32 * 14 * 10));
  EXPECT_DOUBLE_EQ(of("attention", {{2, 16, 4, 1, 8}, {2, 16, 4, 8}, {2, 16, 4, 8}},
                      {{"causal", int64_t{0}}, {"scale", 1.0}})
                       .depth,
                   std::log2(16 * 8));
}

ModelOptions gpt() {
  ModelOptions model;
  model.vocab = 256;
  model.layers = 2;
  return model;
}

std::vector<StepSegment> segments_of(const ModelOptions& model, const Shape& sample) {
  const TrainOptions train;
  return step_graphs(model, train, {}, {4, sample}, schedule_of(train)).segments;
}

TEST(Parallelism, PartsAreTheSumsOfTheirOps) {
  std::map<StepPart, Parallelism> parts;
  std::map<StepPart, Cost> sums;
  double depth_of_ops = 0;
  for (const Parallelism& row : parallelism_of(segments_of(gpt(), {128}))) {
    if (row.op.empty()) {
      parts[row.part] = row;
      continue;
    }
    sums[row.part].flops += row.cost.flops;
    if (row.part == StepPart::kForward) depth_of_ops += row.depth;
  }
  ASSERT_EQ(parts.size(), 3);
  for (const auto& [part, row] : parts) EXPECT_DOUBLE_EQ(row.cost.flops, sums[part].flops);
  // Gradients of weights and of inputs: twice the products. Forward has the loss too, and no path is longer
  // than all nodes in a row.
  EXPECT_NEAR(parts[StepPart::kBackward].cost.flops / parts[StepPart::kForward].cost.flops, 2, 0.5);
  EXPECT_LE(parts[StepPart::kForward].depth, depth_of_ops);
  // Weights are updated beside one another.
  EXPECT_GT(parts[StepPart::kUpdate].average(), 1000);
  EXPECT_LT(parts[StepPart::kUpdate].depth, 100);
}

TEST(Parallelism, TwiceTheLayersAreTwiceAsDeepAndNotMoreParallel) {
  const auto forward = [](int64_t layers) {
    ModelOptions model = gpt();
    model.layers = layers;
    return parallelism_of(segments_of(model, {128}))[0];
  };
  const Parallelism four = forward(4), eight = forward(8), twelve = forward(12);
  EXPECT_DOUBLE_EQ(twelve.depth - eight.depth, eight.depth - four.depth);
  EXPECT_NEAR(eight.average() / four.average(), 1, 0.2);
}

TEST(Placement, LargeProductsComputeAndNormsMove) {
  const std::vector<StepSegment> segments = segments_of(gpt(), {128});
  DeviceClass device = read_cluster("a100").devices[0];
  device.launch_seconds = 0;
  device.bandwidth = {{1, 1e12}};
  device.flops_per_second = {{DType::f32, 1e13}};
  device.products = {};
  device.ops = {};
  const std::vector<Parallelism> rows = parallelism_of(segments);
  const std::vector<Placement> placements = placements_of(segments, device);
  ASSERT_EQ(rows.size(), placements.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].op == "matmul") {
      EXPECT_EQ(placements[i].limit, Placement::Limit::kCompute);
    }
    if (rows[i].op == "layer_norm") {
      EXPECT_EQ(placements[i].limit, Placement::Limit::kMemory);
      EXPECT_NEAR(placements[i].seconds, rows[i].cost.bytes / 1e12, 1e-12);
    }
  }
  device.launch_seconds = 1;
  EXPECT_EQ(placements_of(segments, device)[0].limit, Placement::Limit::kLaunch);
}

Loads loads(const Plan& plan, int64_t batch) {
  TrainOptions train;
  train.batch = batch;
  const StepPrograms programs(gpt(), train, {}, {batch, {16}}, plan);
  std::vector<Program> all;
  for (int rank = 0; rank < plan.mesh.ranks(); ++rank) all.push_back(programs.rank(rank, kNoWorkspace));
  return loads_of(all);
}

TEST(Load, EvenRowsAreEvenWorkAndUnevenOnesAreNot) {
  const Plan plan{.mesh = Mesh({{"data", 2}}), .preset = "data"};
  const std::pair<StepPart, std::string> products{StepPart::kForward, "matmul"};
  EXPECT_EQ(loads(plan, 4).at(products).imbalance(), 0);
  // Two rows and one: the larger part is a third more than the average.
  EXPECT_NEAR(loads(plan, 3).at(products).imbalance(), 1.0 / 3, 1e-9);
}

}  // namespace
}  // namespace trireme::sim
