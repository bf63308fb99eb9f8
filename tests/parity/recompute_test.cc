// Making values again changes memory and time but no bit: models of the goldens, with dropout, are trained
// with and without, on one rank and on several, and all states of all ranks are compared byte by byte.
#include "trireme/passes/recompute.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "golden.h"
#include "trireme/comm/context.h"
#include "trireme/ir/scope.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/trainer.h"

namespace trireme::parity {
namespace {

using StateBytes = std::map<std::string, std::vector<std::byte>>;

struct Trained {
  std::vector<StateBytes> states;  // of each rank
  size_t kept = 0, peak = 0;       // of rank 0: from forward to backward, and in all
  int64_t clones = 0;
};

int64_t clones_of(const Graph& graph) {
  return std::ranges::count_if(graph.nodes,
                               [&](const Node& node) { return has_part(scope_of(graph, node), kAgainPart); });
}

Trained trained(const Golden& golden, const TrainOptions& options, const Plan& plan) {
  Trained result;
  result.states.resize(plan.mesh.ranks());
  const auto run = [&](const RankOptions& ranks) {
    const std::unique_ptr<Device> device = make_cpu_device(1);
    Trainer trainer(golden.model, options, golden.optim, golden.shape, *device, ranks);
    trainer.initialise(1);
    for (int64_t step = 0; step < 2; ++step) {
      Batch batch = make_batch(golden, step);
      trainer.step(batch, step, golden.rates[step]);
    }
    for (const State& state : trainer.program().states) {
      if (state.role == Role::kStash) continue;  // of a pipeline: what is kept
      std::vector<std::byte>& bytes = result.states[ranks.rank][state.name];
      bytes.resize(state.type.bytes());
      trainer.executor().read_state(state.name, bytes.data(), bytes.size());
    }
    if (ranks.rank > 0) return;
    result.peak = trainer.program().peak_bytes();
    for (const Segment& segment : trainer.program().segments) {
      result.kept += kept_bytes(segment.graph);
      result.clones += clones_of(segment.graph);
    }
  };
  if (plan.mesh.ranks() == 1) {
    run({plan});
    return result;
  }
  comm::run_rank_threads(plan.mesh.ranks(), [&](comm::Context& context) {
    MeshCommunicator communicator(plan.mesh, context);
    run({plan, context.rank(), &communicator});
  });
  return result;
}

struct RecomputeCase {
  std::string golden, precision, preset, mesh, schedule = "";
};
std::ostream& operator<<(std::ostream& out, const RecomputeCase& c) {
  return out << c.golden << " in " << c.precision << ", " << c.preset << " on " << c.mesh << " "
             << c.schedule;
}

class RecomputeTest : public testing::TestWithParam<RecomputeCase> {};

TEST_P(RecomputeTest, ChangesNoBit) {
  const RecomputeCase& one = GetParam();
  Golden golden = read_golden(one.golden);
  golden.model.dropout = 0.2;
  TrainOptions options = golden.train;
  options.precision = one.precision;
  Plan plan{.mesh = one.mesh.empty() ? Mesh() : parse_mesh(one.mesh), .preset = one.preset};
  if (!one.schedule.empty()) plan.schedule = one.schedule;
  const Trained kept = trained(golden, options, plan);
  EXPECT_EQ(kept.clones, 0);
  for (const Recompute::Kind kind :
       {Recompute::Kind::kFull, Recompute::Kind::kSelective, Recompute::Kind::kFullKeepCollectives}) {
    plan.recompute = Recompute{kind};
    const Trained again = trained(golden, options, plan);
    EXPECT_GT(again.clones, 0);
    // A pipeline's stashes are states.
    if (one.schedule.empty())
      EXPECT_LT(again.kept, kept.kept);
    else
      EXPECT_LT(again.peak, kept.peak);
    for (size_t rank = 0; rank < kept.states.size(); ++rank) {
      for (const auto& [name, bytes] : kept.states[rank])
        EXPECT_TRUE(again.states[rank].at(name) == bytes) << name << " of rank " << rank;
    }
  }
}

std::vector<RecomputeCase> recompute_cases() {
  std::vector<RecomputeCase> result;
  for (const char* golden : {"gpt", "llama", "resnet20", "lstm"}) {
    const bool convolves = golden == std::string("resnet20");
    for (const char* precision : {"f32", "bf16"}) {
      result.push_back({golden, precision, "data", ""});
      result.push_back({golden, precision, "data", "data:2"});
      result.push_back({golden, precision, convolves ? "hybrid_cnn" : "megatron", "tensor:2"});
      result.push_back({golden, precision, "zero3", "data:2"});
    }
  }
  for (const char* schedule : {"gpipe", "1f1b", "zb_h1"})
    result.push_back({"llama_accumulated", "f32", "data", "pipe:2", schedule});
  result.push_back({"gpt", "f16", "megatron+sequence", "tensor:2"});
  result.push_back({"llama_accumulated", "f32", "zero2", "data:2"});
  return result;
}

INSTANTIATE_TEST_SUITE_P(Cases, RecomputeTest, testing::ValuesIn(recompute_cases()));

// A GPT of 12 layers, in f32: T tokens, h features, H heads, V words.
TEST(RecomputeMemory, IsThatOfTheClosedForm) {
  const ModelOptions model{.layers = 12, .heads = 4, .hidden = 64, .vocab = 101, .seq = 32};
  constexpr size_t kRows = 4, T = kRows * 32, h = 64, H = 4, V = 101, L = 12;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const auto program = [&](Recompute::Kind kind) {
    return step_program(model, {}, {}, {.rows = kRows, .sample = {32}}, *device,
                        {Plan{.recompute = Recompute{kind}}});
  };
  const Program none = program(Recompute::Kind::kNone), full = program(Recompute::Kind::kFull),
                selective = program(Recompute::Kind::kSelective);
  const auto kept = [](const Program& p) { return kept_bytes(p.segments[0].graph) / 4; };
  // What the head reads: the last block's result, the norm's with its statistics, logits and their sums.
  const size_t head = 2 * T * h + 2 * T + T * V + T;
  // The input, norm, q k v, attention with its sums, sum, norm, 4h before and after the activation.
  EXPECT_EQ(kept(none), L * (16 * T * h + 4 * T + T * H) + head);
  EXPECT_EQ(kept(full), L * T * h + head);
  // Without the results of the norms and of the activation.
  EXPECT_EQ(kept(selective), L * (10 * T * h + T * H) + head - T * h - 2 * T);
  EXPECT_LT(full.peak_bytes() + 4 * 11 * 14 * T * h, none.peak_bytes());
  EXPECT_LT(selective.peak_bytes(), none.peak_bytes());
}

}  // namespace
}  // namespace trireme::parity
