// N: NUS CS6216, "Parallelism and Training Techniques".
#include <fmt/format.h>

#include <array>
#include <cmath>

#include "trireme/models/model.h"
#include "trireme/ops/products.h"
#include "trireme/reproduce/collectives.h"
#include "trireme/reproduce/entry.h"
#include "trireme/reproduce/pipelines.h"
#include "trireme/reproduce/step.h"
#include "trireme/train/step.h"

namespace trireme::reproduce {
namespace {

using comm::Algorithm;

constexpr int kWorkers = 8;

std::vector<double> words_in_all() {
  std::vector<double> words;
  for (const Algorithm algorithm : {Algorithm::parameter_server, Algorithm::naive, Algorithm::ring,
                                    Algorithm::tree, Algorithm::butterfly})
    words.push_back(sent_by(algorithm, kWorkers).in_all);
  return words;
}

std::vector<double> turns() {
  const Sent ring = sent_by(Algorithm::ring, kWorkers), tree = sent_by(Algorithm::tree, kWorkers);
  return {ring.rounds, ring.by_busiest, tree.rounds};
}

// Without latencies, as the deck has them.
std::vector<double> times_of_words() {
  const auto seconds = [](Algorithm algorithm) {
    const comm::Formula form = comm::formula(comm::Collective::all_reduce, algorithm, kWorkers);
    return form.carried * kExampleBytes * example_link().beta_seconds_per_byte;
  };
  return {seconds(Algorithm::parameter_server), seconds(Algorithm::ring), seconds(Algorithm::tree),
          sent_by(Algorithm::ring, kWorkers).rounds, sent_by(Algorithm::tree, kWorkers).rounds};
}

// BERT-large, GPT-2, Turing-NLG and GPT-3, with the 16-bit states of mixed precision; the smallest batch.
Step model_of_deck(size_t which) {
  static const std::array<Settings, 4> models = {
      Settings{"model.family=bert", "model.layers=24", "model.heads=16", "model.hidden=1024",
               "model.vocab=30522", "model.seq=512"},
      Settings{"model.layers=48", "model.heads=25", "model.hidden=1600", "model.vocab=50257",
               "model.seq=1024"},
      Settings{"model.layers=78", "model.heads=28", "model.hidden=4256", "model.vocab=51200",
               "model.seq=1024"},
      Settings{"model.layers=96", "model.heads=96", "model.hidden=12288", "model.vocab=50257",
               "model.seq=2048"}};
  Settings settings = models[which];
  for (const char* more : {"train.batch=2", "train.accumulate=2", "train.precision=bf16",
                           "train.weight_precision=bf16", "train.gradient_precision=bf16"})
    settings.emplace_back(more);
  return read_step(settings);
}

std::vector<double> parameters_and_memory() {
  std::vector<double> parameters, bytes;
  for (size_t which = 0; which < 4; ++which) {
    const Program program = program_of(model_of_deck(which));
    parameters.push_back(static_cast<double>(program.parameters));
    bytes.push_back(model_state_bytes(program));
  }
  std::vector<double> result;
  for (const double count : parameters) result.push_back(count / 1e9);
  for (size_t i = 1; i < 4; ++i) result.push_back(parameters[i] / parameters[0]);
  for (const double size : bytes) result.push_back(size / 1e9);
  return result;
}

std::vector<double> fewest_cards() {
  std::vector<double> result;
  for (size_t which = 1; which < 4; ++which) {
    const double bytes = model_state_bytes(program_of(model_of_deck(which)));
    for (const double gigabytes : {16, 32, 40, 80}) result.push_back(std::ceil(bytes / (gigabytes * 1e9)));
  }
  return result;
}

// Of the last layer of a network of two, from 256 features to 64, for a batch of 32. `plan` spreads nothing
// else.
constexpr double kRows = 32, kInputs = 256, kOutputs = 64;
Step of_layer(const std::string& plan) {
  return read_step(
      {"model.family=mlp", "model.layers=2", "model.hidden=256", "model.classes=64", "train.batch=32"}, plan);
}

// By collectives of that layer's values, forward and backward.
double sent_by_layer(const Program& program) {
  double sent = 0;
  for (const Segment& segment : program.segments) {
    if (segment.kind != SegmentKind::kForwardBackward) continue;
    for (int node = 0; node < std::ssize(segment.graph.nodes); ++node) {
      const ValueId made = segment.graph.nodes[node].outputs[0];
      if (segment.graph.values[made].name.starts_with("layers.1/")) sent += bytes_sent(segment, node);
    }
  }
  return sent;
}

std::vector<double> layer_under_plans() {
  const auto split = [](int dim) {
    return fmt::format(R"({{"mesh": "tensor:2", "layouts": {{"layers.1.weight": "tensor:{}"}}}})", dim);
  };
  const Program data = program_of(of_layer(R"({"mesh": "data:2"})"));
  return {bytes_sent_in_step(data) / (4 * static_cast<double>(data.parameters)),
          sent_by_layer(program_of(of_layer(split(0)))) / (4 * kRows * kInputs),
          sent_by_layer(program_of(of_layer(split(1)))) / (4 * kRows * kOutputs)};
}

// Sums over `tensor` in forward and backward of one more block.
std::vector<double> sums_of_block() {
  const auto sums = [](int layers, SegmentKind kind) {
    const Program program =
        program_of(read_step({fmt::format("model.layers={}", layers), "model.heads=4", "model.hidden=64",
                              "model.vocab=64", "model.seq=16", "train.batch=4"},
                             R"({"mesh": "tensor:2", "preset": "megatron"})"));
    double count = 0;
    for (const Segment& segment : program.segments) {
      if (segment.kind != kind) continue;
      for (int node = 0; node < std::ssize(segment.graph.nodes); ++node)
        count += bytes_sent(segment, node) > 0;
    }
    return count;
  };
  const double forward = sums(3, SegmentKind::kEvaluate) - sums(2, SegmentKind::kEvaluate);
  const double both = sums(3, SegmentKind::kForwardBackward) - sums(2, SegmentKind::kForwardBackward);
  return {forward, both - forward};
}

// Of forward products and of parameters, by the names of layers.
std::vector<double> share_of_convolutions(const Settings& settings) {
  const Step step = read_step(settings);
  double convolutions = 0, all = 0;
  const Graph graph = forward_graph(Model(step.setup.config.model), step.setup.shape, DType::f32);
  for (const Node& node : graph.nodes) {
    const double flops = product_flops(graph, node);
    all += flops;
    if (graph.values[node.outputs[0]].name.starts_with("features")) convolutions += flops;
  }
  double in_convolutions = 0, parameters = 0;
  for (const Value& value : parameters_of(step)) {
    const auto elements = static_cast<double>(value.type.shape.elements());
    parameters += elements;
    if (value.name.starts_with("features")) in_convolutions += elements;
  }
  return {100 * convolutions / all, 100 * in_convolutions / parameters};
}

std::vector<double> shares_of_convolutions() {
  std::vector<double> result =
      share_of_convolutions({"model.family=alexnet", "model.classes=1000", "train.batch=1"});
  for (const double share :
       share_of_convolutions({"model.family=vgg", "model.layers=16", "model.classes=1000", "train.batch=1"}))
    result.push_back(share);
  return result;
}

constexpr PipelineShape kDrawn{.stages = 4, .microbatches = 8};

std::vector<double> gpipe_bubble() {
  const Timeline line = timeline_of("gpipe", kDrawn);
  return {100 * line.bubble_of_work(), 100 * line.bubble};
}

std::vector<double> kept_by_one_f1b() {
  return {100 * timeline_of("1f1b", kDrawn).bubble_of_work(), most_kept("1f1b", kDrawn),
          most_kept("gpipe", kDrawn)};
}

std::vector<double> interleaved_bubble() {
  constexpr PipelineShape kTwoChunks{.stages = 4, .microbatches = 8, .chunks_per_stage = 2};
  const double whole = timeline_of("1f1b", kDrawn).bubble_of_work();
  const double cut = timeline_of("interleaved", kTwoChunks).bubble_of_work();
  return {100 * cut, cut / whole, messages_of("interleaved", kTwoChunks) / messages_of("1f1b", kDrawn)};
}

std::vector<double> one_of_four_works() {
  return {100 * timeline_of("gpipe", {.stages = 4, .microbatches = 1}).bubble};
}

}  // namespace

Deck nus() {
  return {
      'N',
      "NUS CS6216, \"Parallelism and Training Techniques\"",
      {
          {.id = "N1",
           .statement = "vectors sent in all by N = 8 workers",
           .command = "trireme inspect collectives -n 8",
           .figures = {{.name = "server, 2N", .deck = 16, .corrected = 14},
                       {.name = "all to all, N²", .deck = 64, .corrected = 56},
                       {.name = "ring, 2N", .deck = 16, .corrected = 14},
                       {.name = "tree, 2N", .deck = 16, .corrected = 14},
                       {"butterfly, N·log N", 24}},
           .ours = words_in_all,
           .note = "The deck has N where it is N−1."},
          {.id = "N2",
           .priority = 2,
           .statement = "turns and vectors of a worker, N = 8",
           .command = "trireme inspect collectives -n 8",
           .figures = {{.name = "turns of the ring, 2N", .deck = 16, .corrected = 14},
                       {.name = "vectors of the ring, 2", .deck = 2, .corrected = 1.75},
                       {"turns of the tree, 2·log N", 6}},
           .ours = turns,
           .note = "Exactly, a ring has 2(N−1) turns, and a worker sends 2(N−1)/N vectors."},
          {.id = "N3",
           .statement = "time by bandwidth alone, N = 8, 64 MiB over 1 Gbit/s; the ring has the best latency",
           .command = "trireme inspect collectives -n 8 --link office",
           .figures = {{.name = "server, MN/b", .deck = 4.295, .corrected = 7.516, .unit = "s"},
                       {.name = "ring, 2M/b", .deck = 1.0737, .corrected = 0.9395, .unit = "s"},
                       {.name = "tree, 2M·log N/b", .deck = 3.221, .unit = "s"},
                       {"messages after one another, ring"},
                       {"messages after one another, tree"}},
           .ours = times_of_words,
           .note =
               "The ring is best in bandwidth and worst in latency. The server's time is that of one way, "
               "with N for N−1."},
          {.id = "N4",
           .statement = "BERT-large, GPT-2, Turing-NLG, GPT-3: billions of parameters, computation relative "
                        "to BERT, memory of 16 bytes a parameter",
           .command = "trireme plan --fit -n 1 --model.layers=48 --model.heads=25 --model.hidden=1600 "
                      "--model.vocab=50257 --model.seq=1024 --train.precision=bf16 "
                      "--train.weight_precision=bf16 --train.gradient_precision=bf16 --train.accumulate=2",
           .figures = {{.name = "BERT-large", .deck = 0.32, .corrected = 0.335174458, .unit = "B"},
                       {.name = "GPT-2", .deck = 1.5, .corrected = 1.5576112, .unit = "B"},
                       {.name = "Turing-NLG", .deck = 17.2, .unit = "B"},
                       {.name = "GPT-3", .deck = 175, .unit = "B"},
                       {.name = "GPT-2 to BERT", .deck = 4.7, .corrected = 4.65},
                       {.name = "Turing-NLG to BERT", .deck = 54, .corrected = 51.3},
                       {.name = "GPT-3 to BERT", .deck = 547, .corrected = 521},
                       {.name = "BERT-large", .deck = 5.12, .corrected = 5.36, .unit = "GB"},
                       {.name = "GPT-2", .deck = 24, .corrected = 24.9, .unit = "GB"},
                       {.name = "Turing-NLG", .deck = 275, .unit = "GB"},
                       {.name = "GPT-3", .deck = 2800, .unit = "GB"}},
           .ours = parameters_and_memory,
           .note = "Two of the deck's counts are not those of the models it names, and the rest follows from "
                   "them. Turing-NLG's vocabulary of 51,200 is an assumption."},
          {.id = "N5",
           .priority = 2,
           .statement = "out of memory: cards of 16, 32, 40 and 80 GB that hold the states alone",
           .command = "trireme reproduce N5",
           .figures = {{"GPT-2, 16 GB", 2},
                       {"GPT-2, 32 GB", 1},
                       {"GPT-2, 40 GB", 1},
                       {"GPT-2, 80 GB", 1},
                       {"Turing-NLG, 16 GB", 18},
                       {"Turing-NLG, 32 GB", 9},
                       {"Turing-NLG, 40 GB", 7},
                       {"Turing-NLG, 80 GB", 4},
                       {"GPT-3, 16 GB", 175},
                       {"GPT-3, 32 GB", 88},
                       {"GPT-3, 40 GB", 70},
                       {"GPT-3, 80 GB", 35}},
           .ours = fewest_cards,
           .note = "The deck has no numbers; these are 16 bytes a parameter over the card's memory."},
          {.id = "N6",
           .statement = "a layer on two devices sends, in the extents of one tensor and one direction",
           .command =
               "trireme inspect program --model.family=mlp --model.layers=3 --train.batch=32 --segment "
               "none --plan '{\"mesh\": \"tensor:2\", \"layouts\": {\"*.weight\": \"tensor:0\"}}'",
           .figures = {{"data parallel, of C_out·C_in (of all layers)", 1},
                       {"outputs split, of B·C_in", 1},
                       {"inputs split, of B·C_out", 1}},
           .ours = layer_under_plans,
           .note =
               "An all-reduce by P ranks sends 2(P−1)/P of it, which is 1 for P = 2. The other direction is "
               "local where what the layer reads or makes is on all ranks."},
          {.id = "N7",
           .priority = 2,
           .statement = "convolutions compute 90 to 95 % and have 5 % of the parameters",
           .command = "trireme inspect graph --model.family=alexnet --parallelism",
           .figures = {{.name = "AlexNet, of forward products", .deck = 92.5, .unit = "%", .bound = 0.03},
                       {.name = "AlexNet, of parameters", .deck = 5, .corrected = 4.04, .unit = "%"},
                       {.name = "VGG-16, of forward products", .deck = 92.5, .corrected = 99.2, .unit = "%"},
                       {.name = "VGG-16, of parameters", .deck = 5, .corrected = 10.6, .unit = "%"}},
           .ours = shares_of_convolutions,
           .note = "VGG-16 is not like that."},
          {.id = "N8",
           .priority = 2,
           .statement = "so convolutions are split by rows, and dense layers by features",
           .command = "trireme inspect plan --model.family=alexnet --plan hybrid_cnn -n 4"},
          {.id = "N9",
           .statement = "Megatron: sums of activations that a layer owes",
           .command = "trireme inspect program --plan megatron -n 2 --segment none",
           .figures = {{"forward", 2}, {"backward", 2}},
           .ours = sums_of_block},
          {.id = "N10",
           .priority = 2,
           .kind = Kind::kSimulated,
           .statement = "Megatron-LM to 512 V100: weak scaling of 77 % by tensor alone, 74 % with data",
           .command = "trireme simulate --model.layers=72 --model.heads=32 --model.hidden=3072 --plan "
                      "'{\"mesh\": \"tensor:8\", \"preset\": \"megatron\"}' --cluster v100 --hosts 1",
           .note = "There is no cluster of DGX-2 here."},
          {.id = "N11",
           .statement = "GPipe with 4 stages and 8 microbatches: the bubble",
           .command = "trireme inspect schedule gpipe --stages 4 --microbatches 8",
           .figures = {{.name = "of the ideal step, (p−1)/m", .deck = 37.5, .unit = "%"},
                       {.name = "of the step, (p−1)/(m+p−1)", .deck = 27.27, .unit = "%"}},
           .ours = gpipe_bubble},
          {.id = "N12",
           .statement = "1F1B: the same bubble, but at most p microbatches kept",
           .command = "trireme inspect schedule 1f1b --stages 4 --microbatches 8",
           .figures = {{.name = "bubble of the ideal step", .deck = 37.5, .unit = "%"},
                       {"kept by the first stage", 4},
                       {"kept under GPipe", 8}},
           .ours = kept_by_one_f1b},
          {.id = "N13",
           .statement = "interleaved with two chunks a stage",
           .command = "trireme inspect schedule interleaved --stages 4 --microbatches 8 --chunks 2",
           .figures = {{.name = "bubble of the ideal step", .deck = 18.75, .unit = "%"},
                       {"bubble, of 1F1B's", 0.5},
                       {.name = "messages, of 1F1B's", .deck = 2, .corrected = 7.0 / 3}},
           .ours = interleaved_bubble,
           .note = "v chunks a stage have v·p − 1 boundaries, not v times p − 1."},
          {.id = "N14",
           .priority = 2,
           .statement = "without microbatches one of 4 devices works",
           .command = "trireme inspect schedule gpipe --stages 4 --microbatches 1",
           .figures = {{.name = "idle", .deck = 75, .unit = "%"}},
           .ours = one_of_four_works},
          {.id = "N16",
           .kind = Kind::kSimulated,
           .statement = "Alpa: GPT of 39B on 64 V100, 3.6 PFLOP/s, as good as manual plans",
           .command =
               "trireme plan --model.layers=48 --model.heads=64 --model.hidden=8192 "
               "--model.vocab=51200 --model.seq=1024 --train.batch=1024 --train.precision=f16 --train.weight_precision=f16 "
               "--train.gradient_precision=f16 --cluster v100 --hosts 8",
           .note = "A search of minutes."},
          {.id = "N19",
           .priority = 2,
           .statement = "the least computation and communication, by integer programming",
           .command = "build/release/trireme/planner/planner_test --gtest_filter='Intra*'"},
      },
  };
}

}  // namespace trireme::reproduce
