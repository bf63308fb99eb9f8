// Programs of small models on the clock: ranks that stand for others against all ranks, collectives in two
// ways, memory and bytes against the Programs, and huge models without weights.
#include "trireme/sim/simulate.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "tests/support/error_of.h"
#include "tests/support/memory_forms.h"
#include "trireme/mesh/cluster_file.h"
#include "trireme/program/file_turns.h"
#include "trireme/schedule/pipeline_table.h"
#include "trireme/sim/draw.h"
#include "trireme/train/step_programs.h"

namespace trireme::sim {
namespace {

using testing::HasSubstr;

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

// Whoever keeps a report need not keep the cluster.
TEST(Simulate, AReportOwnsWhatItSaysOfDevices) {
  const Case what(R"({"mesh": "data:4", "preset": "data"})");
  Cluster cluster = read_cluster("a100");
  const double memory_bytes = cluster.devices[0].memory_bytes;
  const SimReport all = simulate_case(what, cluster, {.ranks = SimOptions::Ranks::kAll});
  cluster.devices[0].memory_bytes = 1;
  ASSERT_EQ(all.ranks.size(), 4u);
  EXPECT_EQ(all.fullest().device->memory_bytes, memory_bytes);
  EXPECT_EQ(all.ranks[0].device, all.ranks[3].device);  // one copy, not one for each rank
}

// Parts of 1/257 are not of one size.
TEST(Simulate, OfManyUnevenRanksTheLargestStandsForAll) {
  const Case what(R"({"mesh": "data:257", "preset": "zero3"})", 257);
  Cluster wide = read_cluster("a100");
  wide.hosts[0].devices = 257;
  const SimReport few = simulate_case(what, wide);
  const SimReport all = simulate_case(what, wide, {.ranks = SimOptions::Ranks::kAll});
  ASSERT_EQ(few.ranks.size(), 1u);
  EXPECT_EQ(few.ranks[0].stands_for, 257);
  EXPECT_GE(few.step_seconds, all.step_seconds);
  EXPECT_LT(few.step_seconds, 1.05 * all.step_seconds);
  EXPECT_EQ(few.ranks[0].memory.peak_bytes, all.fullest().memory.peak_bytes);
}

// To the last bit: times, bytes and memory.
void expect_one_stands_for_all(const Case& what, const Cluster& cluster) {
  const SimReport few = simulate_case(what, cluster);
  const SimReport all = simulate_case(what, cluster, {.ranks = SimOptions::Ranks::kAll});
  EXPECT_EQ(std::ssize(all.ranks), what.plan.mesh.ranks());
  ASSERT_EQ(std::ssize(few.ranks), what.plan.pipeline_stages());
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

TEST(Simulate, OneRankOfAStageStandsForAll) {
  for (const char* plan : kPlans) {
    SCOPED_TRACE(plan);
    expect_one_stands_for_all(Case(plan, 16, 4), with_hosts(read_cluster("a100"), 2));
  }
}

// Also where stages begin in the middle of a host: of eight ranks, on hosts of six.
TEST(Simulate, OneRankOfAStageStandsForAllUnderEverySchedule) {
  Cluster cluster = with_hosts(read_cluster("a100"), 3);
  cluster.hosts[0].devices = 6;
  for (const PipelineSchedule& schedule : pipeline_schedules()) {
    const int chunks = std::max(1, schedule.needs.least_chunks);
    const bool asynchronous = schedule.updates == PipelineSchedule::Updates::kBetweenTurns;
    const int64_t microbatches = schedule.name == "pipedream" ? 1 : 4;
    if (!refusal(schedule, {2, microbatches, chunks}).empty()) continue;
    int simulated = 0;
    for (const auto& [mesh, preset] : {std::pair("data:8", "data"),
                                       {"data:8", "zero1"},
                                       {"data:8", "zero3"},
                                       {"data:4 tensor:2", "megatron+sequence+zero2"},
                                       {"data:4 expert:2", "expert"}}) {
      Case what(fmt::format(R"({{"mesh": "pipe:2 {}", "preset": "{}", "schedule": "{}"{}}})", mesh, preset,
                            schedule.name, chunks > 1 ? fmt::format(R"(, "chunks": {})", chunks) : ""),
                16 * microbatches, microbatches);
      SCOPED_TRACE(to_json(what.plan));
      what.model.layers = 2;
      if (what.plan.mesh.find("expert") >= 0) what.model.moe.experts = 4;
      if (asynchronous) {
        what.train.clip_norm = 0;
        what.model.family = "llama";  // without weights that two stages have
      }
      try {
        what.programs();
      } catch (const Error&) {  // they do not go together
        continue;
      }
      expect_one_stands_for_all(what, cluster);
      ++simulated;
    }
    EXPECT_GT(simulated, 0) << schedule.name;
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
      const double bytes = bytes_sent(program, program.list(When::step()));
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

TEST(Simulate, EventsAreWhatTimesAreMadeOf) {
  const Case what(R"({"mesh": "pipe:2 data:2", "preset": "data", "schedule": "1f1b"})", 16, 4);
  const SimReport report = simulate_case(what, read_cluster("a100"), {.events = Events::kRecorded});
  ASSERT_EQ(report.ranks.size(), 2u);
  std::map<int64_t, std::vector<TraceEvent>> messages;
  std::map<std::string, TraceEvent::Kind> kinds;
  for (const RankReport& rank : report.ranks) {
    double computed = 0, last = 0;
    for (const TraceEvent& event : rank.time.events) {
      EXPECT_LE(event.begin, event.end) << event.name;
      EXPECT_LE(event.end, report.step_seconds * (1 + 1e-12));
      if (event.arrow != TraceEvent::Arrow::kNone) messages[event.message].push_back(event);
      kinds[event.name] = event.kind;
      if (event.track != TraceEvent::Track::kCompute || event.name == kWaitEvent) continue;
      EXPECT_GE(event.begin, last * (1 - 1e-12)) << event.name << " overlaps what is before it";
      last = event.end;
      computed += event.end - event.begin;
    }
    EXPECT_GE(computed, rank.time.work_seconds * (1 - 1e-9));
    EXPECT_NEAR(computed + rank.time.bubble_seconds, report.step_seconds, 0.2 * report.step_seconds);
  }
  EXPECT_EQ(kinds.at("first.0.forward"), TraceEvent::Kind::kForward);
  EXPECT_EQ(kinds.at("next.1.backward"), TraceEvent::Kind::kBackward);
  EXPECT_EQ(kinds.at("update"), TraceEvent::Kind::kUpdate);
  EXPECT_EQ(kinds.at("all_reduce data"), TraceEvent::Kind::kCollective);
  EXPECT_EQ(kinds.at("send"), TraceEvent::Kind::kMessage);
  // Activations and their gradients of each microbatch at least, with two ends each.
  EXPECT_GE(messages.size(), 8u);
  for (const auto& [number, ends] : messages) {
    ASSERT_EQ(ends.size(), 2u);
    const bool sent_first = ends[0].arrow == TraceEvent::Arrow::kLeaves;
    const TraceEvent &sent = ends[sent_first ? 0 : 1], &received = ends[sent_first ? 1 : 0];
    EXPECT_EQ(received.arrow, TraceEvent::Arrow::kArrives);
    EXPECT_LE(sent.end, received.end);
    EXPECT_EQ(sent.bytes, received.bytes);
  }
  EXPECT_NE(trace_of(report, what.plan.mesh).find("first.0.forward"), std::string::npos);
  const std::string svg = draw_svg(report, what.plan.mesh, "a title");
  for (const char* text :
       {"a title", ">backward<", ">update<", ">communication<", "0: pipe 0, data 0", "</svg>"})
    EXPECT_NE(svg.find(text), std::string::npos) << text;
  EXPECT_TRUE(simulate_case(what, read_cluster("a100")).ranks[0].time.events.empty());
}

// All wait for the slow one in every step; jitter makes steps longer, since the last of several decides.
TEST(Simulate, SlowRanksAndJitterMakeStepsLonger) {
  const Case what(R"({"mesh": "data:4", "preset": "data"})");
  const Cluster cluster = read_cluster("a100");
  const SimReport calm = simulate_case(what, cluster);
  const SimReport slow = simulate_case(what, cluster, {.disturbance = {.slow = {{2, 3.0}}}});
  ASSERT_EQ(slow.ranks.size(), 4u);
  EXPECT_NEAR(slow.ranks[2].time.work_seconds, 3 * calm.ranks[0].time.work_seconds, 1e-9);
  EXPECT_NEAR(slow.ranks[1].time.work_seconds, calm.ranks[0].time.work_seconds, 1e-9);
  EXPECT_GT(slow.step_seconds, calm.step_seconds + 1.9 * calm.ranks[0].time.work_seconds);
  const SimOptions jittery{.disturbance = {.jitter = 0.3, .seed = 5}, .draws = 20};
  const SimReport drawn = simulate_case(what, cluster, jittery);
  ASSERT_EQ(drawn.drawn_seconds.size(), 20u);
  EXPECT_LT(drawn.drawn_seconds.front(), drawn.drawn_seconds.back());
  EXPECT_GT(drawn.drawn_seconds[10], calm.step_seconds);
  EXPECT_EQ(simulate_case(what, cluster, jittery).drawn_seconds,
            drawn.drawn_seconds);  // a function of the seed
}

// A step is one microbatch. Once the pipeline is full, it takes as long as the slowest stage works, where a
// synchronous one would let each stage wait for all others.
TEST(Simulate, StepsOfAnAsynchronousPipelineOverlap) {
  for (const char* schedule : {"pipedream", "2bw"}) {
    SCOPED_TRACE(schedule);
    Case what(fmt::format(R"({{"mesh": "pipe:4", "preset": "data", "schedule": "{}"}})", schedule), 16,
              schedule == std::string_view("2bw") ? 4 : 1);
    what.train.clip_norm = 0;
    what.model.family = "llama";  // without weights that two stages have
    Cluster cluster = read_cluster("a100");
    for (LinkClass& link : cluster.links) link = {link.name, 1e-9, 1e15};
    const SimReport report = simulate_case(what, cluster);
    double longest = 0;
    for (const RankReport& rank : report.ranks) longest = std::max(longest, rank.time.work_seconds);
    EXPECT_GE(report.step_seconds, longest * (1 - 1e-9));
    EXPECT_LT(report.step_seconds, 1.02 * longest);
    what.plan.schedule = "1f1b";
    const SimReport synchronous = simulate_case(what, cluster);
    EXPECT_GT(synchronous.step_seconds, 1.3 * report.step_seconds);
    EXPECT_NEAR(report.flops / synchronous.flops, 1, 0.05);
  }
}

// States that rest elsewhere are moved beside the work, as far as there is work.
TEST(Simulate, OffloadTakesTheTimeThatWorkDoesNotHide) {
  const Case what(
      R"({"mesh": "data:2", "preset": "data", "offload": {"optimizer": "file", "folder": "/tmp"}})");
  Cluster cluster = read_cluster("a100");
  const auto step = [&](double rate) {
    cluster.devices[0].offload_bytes_per_second = rate;
    return simulate_case(what, cluster);
  };
  const SimReport fast = step(1e18), slow = step(1e6);
  const Program program = what.programs().rank(0, kNoWorkspace);
  const double bytes = file_bytes_moved(program, program.list(When::step()).actions);
  EXPECT_GT(bytes, 0);
  EXPECT_EQ(slow.ranks[0].time.offload_bytes, bytes);
  EXPECT_LT(fast.ranks[0].time.offload_seconds, 1e-9);
  EXPECT_GT(slow.step_seconds, 0.9 * bytes / 1e6);
  EXPECT_LT(slow.step_seconds, fast.step_seconds + 1.001 * bytes / 1e6);
  EXPECT_NEAR(slow.step_seconds - fast.step_seconds, slow.ranks[0].time.offload_seconds, 0.05 * bytes / 1e6);
  EXPECT_THAT(error_of([&] { step(0); }), HasSubstr("needs offload_bytes_per_second"));
}

TEST(Simulate, SharesOfWhatIsNoOpAreRefused) {
  Cluster cluster = read_cluster("a100");
  cluster.devices[0].ops.insert({"adm", 0.5});
  EXPECT_THAT(error_of([&] { simulate_case(Case(R"({"mesh": "data:2"})"), cluster); }),
              HasSubstr("'adm', which is no op; did you mean 'adam'?"));
  cluster.devices[0].ops.clear();
  cluster.devices[0].at_once = {"adm"};
  EXPECT_THAT(error_of([&] { simulate_case(Case(R"({"mesh": "data:2"})"), cluster); }),
              HasSubstr("does several at once of 'adm', which is no op; did you mean 'adam'?"));
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
