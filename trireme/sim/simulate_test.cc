// Programs of small models on the clock: ranks that stand for others against all ranks, collectives in two
// ways, memory and bytes against the Programs, and huge models without weights.
#include "trireme/sim/simulate.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "trireme/mesh/cluster_file.h"
#include "trireme/passes/traffic.h"
#include "trireme/sim/memory_forms.h"
#include "trireme/train/step_programs.h"

namespace trireme::sim {
namespace {

const WorkspaceQuery kNoWorkspace = [](const Graph&, const Node&) { return size_t{0}; };

ModelOptions small_gpt() {
  ModelOptions model;
  model.layers = 4;
  model.heads = 4;
  model.hidden = 32;
  model.vocab = 64;
  model.seq = 16;
  return model;
}

struct Case {
  Plan plan;
  TrainOptions train;
  ModelOptions model = small_gpt();

  Case(const std::string& json, int64_t batch = 16, int64_t accumulate = 1) : plan(parse_plan(json, "test")) {
    train.batch = batch;
    train.accumulate = accumulate;
  }
  StepPrograms programs() const {
    return {model, train, {}, {train.batch / train.accumulate, Shape{model.seq}}, plan};
  }
};

SimReport simulate_case(const Case& what, const Cluster& cluster, const SimOptions& options = {}) {
  const StepPrograms programs = what.programs();
  const DeviceMap device_map(what.plan.mesh, cluster);
  return simulate(
      device_map, [&](int rank) { return programs.rank(rank, kNoWorkspace); }, options);
}

const char* const kPlans[] = {
    R"({"mesh": "data:4", "preset": "data"})",
    R"({"mesh": "data:4", "preset": "zero1"})",
    R"({"mesh": "data:4", "preset": "zero3"})",
    R"({"mesh": "tensor:4", "preset": "megatron+sequence"})",
    R"({"mesh": "data:2 tensor:2", "preset": "megatron+zero2"})",
    R"({"mesh": "pipe:2 data:2", "preset": "data", "schedule": "1f1b"})",
    R"({"mesh": "pipe:2 data:2 tensor:2", "preset": "megatron+sequence", "schedule": "1f1b"})",
    R"({"mesh": "pipe:2 tensor:2", "preset": "megatron", "schedule": "interleaved", "chunks": 2})",
    R"({"mesh": "pipe:4 data:2", "preset": "zero1", "schedule": "zb_h1"})",
};

// To the last bit: times, bytes and memory.
TEST(Simulate, OneRankOfAStageStandsForAll) {
  for (const char* plan : kPlans) {
    SCOPED_TRACE(plan);
    const Case what(plan, 16, 4);
    const Cluster cluster = with_hosts(read_cluster("a100"), 2);
    const SimReport few = simulate_case(what, cluster);
    const SimReport all = simulate_case(what, cluster, {.ranks = SimOptions::Ranks::kAll});
    EXPECT_EQ(std::ssize(all.ranks), what.plan.mesh.ranks());
    EXPECT_EQ(std::ssize(few.ranks), what.plan.pipeline_stages());
    EXPECT_EQ(few.step_seconds, all.step_seconds);
    const int pipe = what.plan.mesh.find(kPipeAxis);
    for (const RankReport& rank : all.ranks) {
      const RankReport& standing = few.ranks[pipe < 0 ? 0 : what.plan.mesh.coordinate(rank.rank, pipe)];
      EXPECT_EQ(rank.time.end_seconds, standing.time.end_seconds);
      EXPECT_EQ(rank.time.work_seconds, standing.time.work_seconds);
      EXPECT_EQ(rank.time.bubble_seconds, standing.time.bubble_seconds);
      EXPECT_EQ(rank.time.exposed_seconds, standing.time.exposed_seconds);
      EXPECT_EQ(rank.time.bytes_sent, standing.time.bytes_sent);
      EXPECT_EQ(rank.time.bytes, standing.time.bytes);
      EXPECT_EQ(rank.memory, standing.memory);
    }
    EXPECT_NEAR(few.flops / all.flops, 1, 1e-12);
  }
}

TEST(Simulate, ClosedFormsAndStepsAgree) {
  for (const char* plan : kPlans) {
    SCOPED_TRACE(plan);
    const Case what(plan, 16, 4);
    const Cluster cluster = with_hosts(read_cluster("a100"), 2);
    const SimReport forms = simulate_case(what, cluster);
    const SimReport steps = simulate_case(what, cluster, {.collectives = CollectiveModel::kSteps});
    EXPECT_NEAR(forms.step_seconds / steps.step_seconds, 1, 0.01);
  }
}

// Parts that differ: one sequence of three more on some ranks.
TEST(Simulate, RanksThatDifferAreSimulatedEach) {
  const Case what(R"({"mesh": "data:3", "preset": "data"})", 10);
  const SimReport report = simulate_case(what, read_cluster("a100"));
  ASSERT_EQ(report.ranks.size(), 3u);
  EXPECT_GT(report.ranks[0].time.flops, report.ranks[2].time.flops);
  EXPECT_EQ(report.ranks[0].time.end_seconds,
            report.ranks[2].time.end_seconds);  // they end with a collective's update
}

TEST(Simulate, MemoryAndBytesAreTheProgramsOwn) {
  for (const char* plan : kPlans) {
    SCOPED_TRACE(plan);
    const Case what(plan, 16, 4);
    const StepPrograms programs = what.programs();
    const SimReport report = simulate_case(what, with_hosts(read_cluster("a100"), 2));
    for (const RankReport& rank : report.ranks) {
      const Program program = programs.rank(rank.rank, kNoWorkspace);
      EXPECT_EQ(rank.memory.peak_bytes, program.peak_bytes());
      const size_t kinds = std::accumulate(rank.memory.kinds.begin(), rank.memory.kinds.end(), size_t{0},
                                           [](size_t sum, const auto& kind) { return sum + kind.second; });
      EXPECT_EQ(kinds, program.peak_bytes());
      double bytes = 0;
      for (const Action& action : program.find_list("step")->actions) {
        if (action.kind == Action::Kind::kRun)
          bytes += traffic_of(program.segments[program.segment(action.what)].graph).bytes;
        if (action.kind == Action::Kind::kSend)
          bytes += static_cast<double>(program.find_state(action.what)->type.bytes());
      }
      EXPECT_DOUBLE_EQ(rank.time.bytes_sent, bytes);
      EXPECT_NEAR(rank.time.bytes[0] + rank.time.bytes[1] + rank.time.bytes[2], bytes, 1e-6 * bytes);
    }
  }
}

// Weights, gradients and moments in f32 are 16 bytes a parameter too, of which 8 are the optimizer's.
TEST(Simulate, ModelStatesAreSharedAsZeroSays) {
  const StateBytes bytes{.weight = 4, .gradient = 4, .optimizer = 8};
  const std::pair<const char*, StateSharing> kinds[] = {{"data", StateSharing::kNone},
                                                        {"zero1", StateSharing::kOptimizer},
                                                        {"zero2", StateSharing::kGradients},
                                                        {"zero3", StateSharing::kWeights}};
  for (const auto& [preset, sharing] : kinds) {
    SCOPED_TRACE(preset);
    Case what(fmt::format(R"({{"mesh": "data:4", "preset": "{}"}})", preset), 16, 4);
    what.model.hidden = 128;
    const SimReport report = simulate_case(what, read_cluster("a100"));
    double states = 0;
    for (const auto& [kind, size] : report.ranks[0].memory.kinds) {
      if (kind == "parameter" || kind == "optimizer" || kind == "gradient")
        states += static_cast<double>(size);
    }
    // Beside them, loss and count, and what alignment adds to short vectors.
    const double expected = model_state_bytes(static_cast<double>(report.parameters), sharing, 4, bytes);
    EXPECT_NEAR(states / expected, 1, 0.01) << states << " " << expected;
  }
}

// PTD-P's Table 1: as many parameters as printed, from the settings alone.
TEST(Simulate, ParametersOfTheModelsOfPtdp) {
  struct Row {
    double billions;
    int64_t heads, hidden, layers;
  };
  for (const Row& row : {Row{1.65, 24, 2304, 24},
                         {3.56, 32, 3072, 30},
                         {7.47, 32, 4096, 36},
                         {18.45, 48, 6144, 40},
                         {39.1, 64, 8192, 48},
                         {76.05, 80, 10240, 60},
                         {145.62, 96, 12288, 80},
                         {310.13, 128, 16384, 96},
                         {529.6, 128, 20480, 105},
                         {1008.04, 160, 25600, 128}}) {
    ModelOptions model;
    model.layers = row.layers;
    model.heads = row.heads;
    model.hidden = row.hidden;
    model.vocab = 51200;
    model.seq = 2048;
    const Graph forward = forward_graph(model, {1, Shape{model.seq}}, DType::bf16);
    double parameters = 0;
    for (const Value& value : forward.values) {
      if (value.role == Role::kParameter) parameters += static_cast<double>(value.type.shape.elements());
    }
    EXPECT_NEAR(parameters / 1e9, row.billions, 0.0051);
    const Transformer form{row.layers, row.hidden, row.heads, 51200, 2048};
    EXPECT_EQ(parameters, parameters_of(form) + 2.0 * static_cast<double>(row.hidden));  // and the last norm
  }
}

}  // namespace
}  // namespace trireme::sim
