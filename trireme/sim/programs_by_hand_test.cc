// Times, bytes and memory of whole Programs against figures that were worked out on paper.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/ir/text.h"
#include "trireme/ops/table.h"
#include "trireme/program/build.h"
#include "trireme/sim/over_link.h"
#include "trireme/sim/parallelism.h"
#include "trireme/sim/simulate.h"
#include "trireme/sim/track.h"
#include "trireme/train/step_programs.h"

namespace trireme::sim {
namespace {

// Devices that compute everything at once, over links of 1 byte a second without latency.
Cluster wires(int devices) {
  return {.name = "paper",
          .devices = {{.name = "device",
                       .memory_bytes = 1e9,
                       .bandwidth = {{0, 1e30}},
                       .flops_per_second = {{DType::f32, 1e30}}}},
          .hosts = {{.device = "device", .devices = devices, .inside = "wire"}},
          .links = {{.name = "wire", .bytes_per_second = 1}}};
}

// One layer of 4 inputs and 6 outputs: 24 weights, 96 bytes.
std::vector<StepSegment> one_layer() {
  std::vector<StepSegment> segments;
  segments.emplace_back(
      parse_graph("graph first\n"
                  "state %w: f32[4,6] parameter\n"
                  "state %g: f32[4,6] gradient {of=\"w\"}\n"
                  "input %x: f32[8,4] batch\n"
                  "input %dy: f32[8,6] batch\n"
                  "%y: f32[8,6] = matmul(%x, %w)\n"
                  "%loss: f32[] = sum(%y) {dims=[0,1]}\n"
                  "%dw: f32[4,6] = matmul(%x, %dy) {transpose_a=1}\n"
                  "update %g <- %dw\n"
                  "output loss = %loss addend\n",
                  ops()));
  segments.emplace_back(parse_graph("graph update\n"
                                    "state %w: f32[4,6] parameter\n"
                                    "state %g: f32[4,6] gradient {of=\"w\"}\n"
                                    "input %lr: f32[] scalar\n"
                                    "%new: f32[4,6] = sgd(%w, %g, %lr, %lr)\n"
                                    "update %w <- %new\n",
                                    ops()),
                        SegmentKind::kUpdate);
  return segments;
}

// Of two ranks each sends the other half of the 96 bytes to sum up gradients, and half to gather weights: 48
// s each. One microbatch gathers weights before the product, under every preset that splits states. Without
// sharing, an all_reduce of 96 s does both.
TEST(ProgramsByHand, SumsAndGathersOfZero) {
  const Mesh mesh = parse_mesh("data:2");
  const Cluster cluster = wires(2);
  const DeviceMap device_map(mesh, cluster);
  for (const char* preset : {"data", "zero1", "zero2", "zero3"}) {
    SCOPED_TRACE(preset);
    const ProgramBuilder builder(one_layer(), Plan{mesh, preset}, 1);
    const SimReport report =
        simulate(device_map, [&](int rank) { return builder.build(rank, accumulate(1), kNoWorkspace); });
    EXPECT_NEAR(report.step_seconds, 96, 1e-9);
    EXPECT_DOUBLE_EQ(report.ranks[0].time.bytes_sent, 96);
    EXPECT_NEAR(report.ranks[0].time.exposed_seconds[0], 96, 1e-9);
  }
}

// Each product has 2 · 8 · 4 · 6 = 384 FLOPs. The sum of the gradients' 96 bytes takes 96 s, beside the
// second product or before it.
TEST(ProgramsByHand, WithoutOverlapACollectiveIsWaitedForAtOnce) {
  std::vector<StepSegment> segments = one_layer();
  segments[0] = parse_graph(
      "graph first\n"
      "state %w: f32[4,6] parameter\n"
      "state %g: f32[4,6] gradient {of=\"w\"}\n"
      "input %x: f32[8,4] batch\n"
      "input %dy: f32[8,6] batch\n"
      "%dw: f32[4,6] = matmul(%x, %dy) {transpose_a=1}\n"
      "update %g <- %dw\n"
      "%y: f32[8,6] = matmul(%x, %w)\n"
      "%loss: f32[] = sum(%y) {dims=[0,1]}\n"
      "output loss = %loss addend\n",
      ops());
  const Mesh mesh = parse_mesh("data:2");
  Cluster cluster = wires(2);
  cluster.devices[0].flops_per_second = {{DType::f32, 1}};
  const DeviceMap device_map(mesh, cluster);
  const ProgramBuilder builder(std::move(segments), Plan{mesh, "data"}, 1);
  const auto seconds = [&](Overlap overlap) {
    return simulate(device_map, [&](int rank) { return builder.build(rank, accumulate(1), kNoWorkspace); },
                    {.overlap = overlap})
        .step_seconds;
  };
  EXPECT_NEAR(seconds(Overlap::kNone) - seconds(Overlap::kAsPlanned), 96, 1e-9);
}

// A gather is given parts of 48 bytes and makes 96; a sum is given 96 and makes parts.
TEST(ProgramsByHand, ACallIsAsLongAsItsWholeVector) {
  const ProgramBuilder builder(one_layer(), Plan{parse_mesh("data:2"), "zero3"}, 1);
  const Program program = builder.build(0, accumulate(1), kNoWorkspace);
  const Segment& first = program.segments[program.segment("first")];
  int seen = 0;
  for (int n = 0; n < std::ssize(first.graph.nodes); ++n) {
    if (!first.graph.nodes[n].op->collective) continue;
    EXPECT_EQ(call_bytes(first, n), std::vector<double>{96}) << first.graph.nodes[n].op->name;
    ++seen;
  }
  EXPECT_EQ(seen, 2);
}

// Two layers of 8 inputs and 8 outputs on images of 8 pixels: 2 · (64 + 8) parameters, 576 bytes.
Program two_layers(const char* plan, int rank, int64_t batch = 8, int64_t accumulate = 1) {
  ModelOptions model;
  model.family = "mlp";
  model.layers = 2;
  model.hidden = 8;
  model.classes = 8;
  TrainOptions train;
  train.batch = batch;
  train.accumulate = accumulate;
  train.clip_norm = 0;
  OptimOptions optim;
  optim.kind = "sgd";
  return StepPrograms(model, train, optim, {batch / accumulate, {1, 2, 4}}, parse_plan(plan, "test"))
      .rank(rank, kNoWorkspace);
}

// The host of a message waits until it has left, wherever in its list.
TEST(ProgramsByHand, WithoutOverlapAMessageIsWaitedForAtOnce) {
  const Cluster cluster = wires(2);
  const Program program = two_layers(R"({"mesh": "pipe:2", "schedule": "1f1b", "accumulate": 4})", 0, 8, 4);
  const Track track = track_of(program, cluster.devices[0], Overlap::kNone);
  int sends = 0;
  for (const TrackList& list : track.lists) {
    for (size_t i = 0; i < list.actions.size(); ++i) {
      const TrackAction& action = list.actions[i];
      if (action.kind != Action::Kind::kSend) continue;
      EXPECT_THAT(action.waits_behind, testing::Contains(static_cast<int>(i)));
      ++sends;
    }
  }
  EXPECT_EQ(sends, 4);  // of the first stage: one for each microbatch
}

// A step is a microbatch of 8 rows. The first stage sends what its layer has made, 8 · 8 values of 4 bytes;
// the second sends as many back, and the loss and the count of targets, 4 bytes each.
TEST(ProgramsByHand, BytesOfAnAsynchronousPipelineAreThoseOfOneStep) {
  const char* plan = R"({"mesh": "pipe:2", "schedule": "pipedream"})";
  const Mesh mesh = parse_mesh("pipe:2");
  const Cluster cluster = wires(2);
  const DeviceMap device_map(mesh, cluster);
  const SimReport report = simulate(device_map, [&](int rank) { return two_layers(plan, rank); });
  ASSERT_EQ(report.ranks.size(), 2u);
  constexpr size_t kInside = static_cast<size_t>(Reach::kInside);
  const double sent[] = {256, 256 + 4 + 4};
  for (size_t stage = 0; stage < 2; ++stage) {
    EXPECT_DOUBLE_EQ(report.ranks[stage].time.bytes_sent, sent[stage]);
    EXPECT_DOUBLE_EQ(report.ranks[stage].time.bytes[kInside], sent[stage]);
  }
  EXPECT_DOUBLE_EQ(report.bytes_sent, 520);
  EXPECT_DOUBLE_EQ(report.bytes[kInside], 520);
}

size_t bytes_of(const MemoryUse& memory, std::string_view kind) {
  for (const auto& [name, bytes] : memory.kinds) {
    if (name == kind) return bytes;
  }
  return 0;
}

// Microbatches of 2 rows: 2 · 8 values are 64 bytes. Of two stages the first keeps what its layer has made
// of two microbatches, and takes a gradient from the second while it works on the one before. What an
// evaluation sends takes their place.
TEST(ProgramsByHand, AStashIsThereForEachMicrobatchUnderWay) {
  const Program program = two_layers(R"({"mesh": "pipe:2", "schedule": "1f1b"})", 0, 8, 4);
  EXPECT_EQ(program.find_state("stash.layers.0/relu")->slots, 2);
  EXPECT_EQ(program.find_state("stash.layers.1/grad/matmul")->slots, 2);
  EXPECT_EQ(bytes_of(memory_of(program), "stash"), 2u * 64 + 2 * 64);
  // 100 values are 400 bytes, and slots are multiples of 64: 448 bytes, three times. 36 bytes are left over.
  Program padded;
  padded.states = {{.name = "s", .type = {DType::f32, {100}}, .role = Role::kStash, .slots = 3}};
  padded.state_bytes = 3 * 448 + 36;
  padded.arena_bytes = 1000;
  const MemoryUse memory = memory_of(padded);
  EXPECT_EQ(bytes_of(memory, "stash"), 1344u);
  EXPECT_EQ(bytes_of(memory, "alignment"), 36u);
  EXPECT_EQ(bytes_of(memory, "activations"), 1000u);
  EXPECT_EQ(memory.peak_bytes, 2380u);
}

// One row of 8 features: products of 128 FLOPs, and devices that take 1 s for one and no time for anything
// else. The first stage takes 1 s forward and 1 s for its weights' gradient; the second takes 1 s forward and
// 2 s for both gradients. Of four microbatches the second stage begins the first at 1 and is busy for 4 · 3
// s, to 13; then the first has 1 s left, to 14. It worked for 8 s and waited for 6. The second waited for 1 s
// until it began, and for 1 s along pipe for the sum of all squares of gradients, which both take part in
// at 14.
TEST(ProgramsByHand, TheBubbleIsAShareOfAllRanks) {
  const Mesh mesh = parse_mesh("pipe:2");
  Cluster cluster = wires(2);
  cluster.links[0].bytes_per_second = 1e30;
  cluster.devices[0].flops_per_second = {{DType::f32, 128}};
  for (const std::string& op : ops().names()) {
    if (op != "matmul") cluster.devices[0].ops.emplace(op, 1e30);
  }
  const DeviceMap device_map(mesh, cluster);
  const char* plan = R"({"mesh": "pipe:2", "schedule": "1f1b"})";
  const SimReport report = simulate(device_map, [&](int rank) { return two_layers(plan, rank, 4, 4); });
  EXPECT_NEAR(report.step_seconds, 14, 1e-9);
  EXPECT_NEAR(report.ranks[0].time.bubble_seconds, 6, 1e-9);
  EXPECT_NEAR(report.ranks[1].time.bubble_seconds, 1, 1e-9);
  EXPECT_NEAR(report.ranks[1].time.exposed_seconds[0], 1, 1e-9);
  EXPECT_NEAR(report.bubble, (6.0 + 1) / (2 * 14), 1e-9);
}

// Two sums of 1000 bytes that are begun together, at 1000 bytes a second with 1 s of latency. Of two ranks
// each sends 1 s of bytes, which are there 1 s later: the first sum 0 to 2. The second's bytes go behind the
// first's, from 1 on: 1 to 3. One after the other they take 4 s.
TEST(ProgramsByHand, SumsThatAreBegunTogetherWaitForLatencyOnce) {
  const comm::EmulatedLink link = comm::parse_emulated_link("latency=1s,bandwidth=8Kbit");
  const auto seconds = [&](const std::string& nodes) {
    Program result;
    result.mesh = parse_mesh("data:2");
    result.segments.push_back({.graph = parse_graph("graph sums\ninput %a: f32[250]\ninput %b: f32[250]\n" +
                                                        nodes + "output c = %c\noutput d = %d\n",
                                                    ops())});
    result.lists = {{.name = "step", .actions = {{.kind = Action::Kind::kRun, .what = "sums"}}}};
    return step_over(link, Plan{result.mesh, "data"}, [&](int) { return result; }).step_seconds;
  };
  const std::string attrs = R"({axis="data", ways=2, coordinate=0, reduction="sum"})";
  const std::string wait_attrs = R"({axis="data", ways=2, coordinate=0, reduction="sum", shape=[250]})";
  EXPECT_NEAR(
      seconds("%s: f32[250] = all_reduce_start(%a) " + attrs + "\n%t: f32[250] = all_reduce_start(%b) " +
              attrs + "\n%c: f32[250] = all_reduce_wait(%s) " + wait_attrs +
              "\n%d: f32[250] = all_reduce_wait(%t) " + wait_attrs + "\n"),
      3, 1e-9);
  EXPECT_NEAR(
      seconds("%c: f32[250] = all_reduce(%a) " + attrs + "\n%d: f32[250] = all_reduce(%b) " + attrs + "\n"),
      4, 1e-9);
}

// A layer with 8 features on 4 tokens has products of 8 by 24 (q, k and v), 8 by 8, 8 by 32 and 32 by 8:
//
//   2 · 4 · (192 + 64 + 256 + 256) = 6144 FLOPs, and the head, 8 by 16, 2 · 4 · 128 = 1024: 7168 forward
//
// and twice that for gradients, 14336. What is made again of the layer is all but its last product, whose
// result no gradient needs: 6144 − 2 · 4 · 256 = 4096 more.
TEST(ProgramsByHand, WhatIsMadeAgainIsOfTheBackwardPart) {
  ModelOptions model;
  model.layers = 1;
  model.heads = 2;
  model.hidden = 8;
  model.vocab = 16;
  model.seq = 4;
  TrainOptions train;
  train.batch = 1;
  const std::pair<const char*, double> backward[] = {{"none", 14336}, {"full", 14336 + 4096}};
  for (const auto& [recompute, flops] : backward) {
    SCOPED_TRACE(recompute);
    const StepPrograms programs(
        model, train, {}, {1, {4}},
        parse_plan(fmt::format(R"({{"mesh": "data:1", "recompute": "{}"}})", recompute), "test"));
    const std::vector<Program> one = {programs.rank(0, kNoWorkspace)};
    const Loads loads = loads_of(one);
    EXPECT_EQ(loads.at({StepPart::kForward, "matmul"}).sum, 7168);
    EXPECT_EQ(loads.at({StepPart::kBackward, "matmul"}).sum, flops);
  }
}

}  // namespace
}  // namespace trireme::sim
