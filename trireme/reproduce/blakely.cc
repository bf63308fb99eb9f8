// H: "Demystifying Parallel and Distributed Deep Learning" (Ben-Nun and Hoefler), Derrick Blakely. γm = n
// bytes, G = β, L = α; its formulas for 8 ranks and 64 MiB over 0.5 ms and 1 Gbit/s.
#include <cmath>

#include "trireme/comm/collective/comparison.h"
#include "trireme/ir/builder.h"
#include "trireme/ops/table.h"
#include "trireme/reproduce/collectives.h"
#include "trireme/reproduce/entry.h"
#include "trireme/reproduce/pipelines.h"
#include "trireme/sim/parallelism.h"

namespace trireme::reproduce {
namespace {

using comm::Algorithm;
using comm::Collective;

constexpr int kRanks = 8;

std::vector<double> linear() {
  return {example_seconds(comm::formula(Collective::reduce, Algorithm::linear, kRanks)),
          example_seconds(Algorithm::linear, kRanks)};
}

std::vector<double> trees() {
  return {example_seconds(Algorithm::tree, kRanks), example_seconds(Algorithm::butterfly, kRanks)};
}

std::vector<double> rings() {
  return {example_seconds(Algorithm::ring, kRanks),
          example_seconds(Algorithm::reduce_scatter_gather, kRanks)};
}

std::vector<double> least() {
  return {example_seconds(comm::all_reduce_bound(kRanks))};
}

std::vector<double> shards_of_server() {
  std::vector<double> seconds;
  for (const int masters : {1, 2, 8})
    seconds.push_back(example_seconds(comm::masters_formula(kRanks, masters)));
  return seconds;
}

// Of one op on inputs of these shapes.
struct WorkDepth {
  double work, depth;
};
WorkDepth work_and_depth(std::string_view op, const std::vector<Shape>& shapes, Attrs attrs = {}) {
  Builder b(ops(), "one");
  std::vector<ValueId> inputs;
  for (const Shape& shape : shapes)
    inputs.push_back(b.input("x" + std::to_string(inputs.size()), {DType::f32, shape}, Role::kBatch));
  b.node(op, inputs, std::move(attrs));
  const Graph graph = b.take();
  return {cost_of(graph, graph.nodes[0]).flops, sim::depth_of(graph, graph.nodes[0])};
}

// 32 images of 64 channels and 14 by 10 pixels, 96 filters of 3 by 3; or as many features. Work is relative
// to the deck's product, of which a multiplication and an addition are one.
std::vector<double> work_depth() {
  using Ints = std::vector<int64_t>;
  constexpr double kRows = 32, kIn = 64, kOut = 96, kPixels = 14 * 10, kKernel = 9;
  const Shape x{32, 64}, dy{32, 96}, w{64, 96}, image{32, 64, 14, 10}, filters{96, 64, 3, 3},
      d_image{32, 96, 14, 10};
  const Attrs conv{{"stride", Ints{1, 1}}, {"padding", Ints{1, 1}}, {"dilation", Ints{1, 1}}};
  Attrs of_weight = conv, of_input = conv;
  of_weight.set("kernel", Ints{3, 3});
  of_input.set("size", Ints{14, 10});
  const WorkDepth activation = work_and_depth("relu", {image}), y = work_and_depth("matmul", {x, w}),
                  dw = work_and_depth("matmul", {x, dy}, {{"transpose_a", int64_t{1}}}),
                  dx = work_and_depth("matmul", {dy, w}, {{"transpose_b", int64_t{1}}}),
                  conv_y = work_and_depth("conv2d", {image, filters}, conv),
                  conv_dw = work_and_depth("conv2d_grad_weight", {d_image, image}, of_weight),
                  conv_dx = work_and_depth("conv2d_grad_input", {d_image, filters}, of_input);
  const double dense = 2 * kRows * kIn * kOut, products = dense * kPixels * kKernel;
  return {activation.work / (kRows * kIn * kPixels),
          activation.depth,
          y.work / dense,
          y.depth,
          dw.work / dense,
          dw.depth,
          dx.work / dense,
          dx.depth,
          conv_y.work / products,
          conv_y.depth,
          conv_dw.work / products,
          conv_dw.depth,
          conv_dx.work / products,
          conv_dx.depth};
}

std::vector<double> latency_of_pipeline() {
  // A stage's part of the model is the same, so the model grows with the pipeline.
  const auto step = [](int stages) {
    return timeline_of("gpipe", {.stages = stages, .microbatches = 1}).step;
  };
  return {step(8) / step(4), step(16) / step(4)};
}

}  // namespace

Deck blakely() {
  return {
      'H',
      "\"Demystifying Parallel and Distributed Deep Learning\" (Ben-Nun and Hoefler), Derrick Blakely",
      {
          {.id = "H1",
           .priority = 2,
           .statement = "linear: γmG(P−1) + L(P−1)",
           .command = "trireme inspect collectives -n 8",
           .figures = {{.name = "a reduction", .deck = 3.762, .unit = "s"},
                       {.name = "an all-reduce", .deck = 3.762, .corrected = 7.523, .unit = "s"}},
           .ours = linear,
           .note = "The formula is that of a reduction. The way back takes as long."},
          {.id = "H2",
           .statement = "tree 2(γmG + L)·log P, butterfly half of it",
           .command = "trireme inspect collectives -n 8",
           .figures = {{.name = "tree", .deck = 3.224, .unit = "s"},
                       {.name = "butterfly", .deck = 1.612, .unit = "s"}},
           .ours = trees},
          {.id = "H3",
           .statement = "ring 2γmG(P−1)/P + 2L(P−1), reduce-scatter-gather with 2L·log P",
           .command = "trireme inspect collectives -n 8",
           .figures = {{.name = "ring", .deck = 0.9465, .unit = "s"},
                       {.name = "reduce-scatter-gather", .deck = 0.9425, .unit = "s"}},
           .ours = rings},
          {.id = "H4",
           .statement = "no all-reduce takes less than 2γmG(P−1)/P + L·log P",
           .command = "trireme inspect collectives -n 8",
           .figures = {{.name = "bound", .deck = 0.9410, .unit = "s"}},
           .ours = least},
          {.id = "H5",
           .statement = "a server with s shards: 2PγmG/s + 2L",
           .command = "trireme inspect collectives -n 8 --masters 2",
           .figures = {{.name = "s = 1", .deck = 8.591, .unit = "s"},
                       {.name = "s = 2", .deck = 4.296, .unit = "s"},
                       {.name = "s = 8", .deck = 1.075, .unit = "s"}},
           .ours = shards_of_server},
          {.id = "H6",
           .statement = "work (relative to the deck's product) and depth of layers; N 32, C_in 64, C_out 96, "
                        "14×10 pixels, K 3",
           .command = "trireme inspect graph --model.family=lenet --parallelism",
           .figures = {{"activation, work", 1},
                       {"depth 1", 1},
                       {"dense y, work", 1},
                       {"depth log C_in", 6},
                       {"dense ∇w, work", 1},
                       {"depth log N", 5},
                       {"dense ∇x, work", 1},
                       {"depth log C_out", 6.585},
                       {"convolution y, work", 1},
                       {"depth 2·log K + log C_in", 9.170},
                       {"convolution ∇w, work", 1},
                       {.name = "depth", .deck = 9.170, .corrected = 12.13},
                       {"convolution ∇x, work", 1},
                       {.name = "depth", .deck = 9.170, .corrected = 9.755}},
           .ours = work_depth,
           .note =
               "The deck gives the depth of y to both gradients of a convolution. As in its dense rows, ∇w "
               "adds over N·H'·W' and ∇x over C_out·Kx·Ky."},
          {.id = "H9",
           .kind = Kind::kMeasured,
           .statement = "six cells: server or decentralised × synchronous, stale, asynchronous",
           .command = "python3 scripts/exchange_tables --only cells --data DATA"},
          {.id = "H10",
           .priority = 2,
           .statement = "the latency of a pipeline is linear in its processors",
           .command = "trireme inspect schedule gpipe --stages 8 --microbatches 1",
           .figures = {{"8 stages, of that of 4", 2}, {"16 stages, of that of 4", 4}},
           .ours = latency_of_pipeline},
          {.id = "H11",
           .priority = 2,
           .kind = Kind::kSimulated,
           .statement = "parallelism of a graph's branches",
           .command = "trireme inspect graph --parallelism"},
      },
  };
}

}  // namespace trireme::reproduce
