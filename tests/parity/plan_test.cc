// A plan changes who computes what, not what is computed: ranks as threads against one rank, from the same
// weights and batches. Losses and weights may differ by the rounding of sums that are added up in another
// order.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "golden.h"
#include "trireme/runtime/mesh_communicator.h"

namespace trireme::parity {
namespace {

struct Outcome {
  std::vector<double> losses, norms;
  std::map<std::string, std::vector<float>> states;  // whole ones
  double correct = 0;
};

// The states of all ranks, put together from what each has.
void collect(Trainer& trainer, Outcome& run) {
  for (const StateSlot& slot : trainer.program().states) {
    const std::string_view role = slot.attrs.text("role", "");
    if (role != "parameter" && role != "buffer" && role != "optimizer") continue;
    std::vector<float> local(slot.type.shape.elements());
    trainer.executor().read_state(slot.name, local.data(), slot.type.bytes());
    std::vector<float>& whole = run.states[slot.name];
    whole.resize(slot.part.whole.elements(), std::numeric_limits<float>::quiet_NaN());
    for_each_run(slot.part, [&](int64_t to, int64_t from, int64_t count) {
      std::copy_n(local.begin() + from, count, whole.begin() + to);
    });
  }
}

Outcome run_plan(const Golden& golden, const Plan& plan, int64_t steps) {
  Outcome run;
  std::mutex mutex;
  const auto one_rank = [&](comm::Context& context) {
    MeshCommunicator communicator(plan.mesh, context);
    const std::unique_ptr<Device> device = make_cpu_device(1);
    Trainer trainer(golden.model, golden.train, golden.optim, golden.shape, *device,
                    {plan, context.rank(), context.ranks() > 1 ? &communicator : nullptr});
    trainer.initialise(7);
    const std::vector<StepResult> results = train(trainer, golden, 0, steps);
    Batch batch = make_batch(golden, 0);
    Evaluation evaluation;
    trainer.evaluate(batch, evaluation);
    const std::lock_guard lock(mutex);
    if (context.rank() == 0) {
      for (const StepResult& result : results) {
        run.losses.push_back(result.loss);
        run.norms.push_back(result.norm);
      }
      run.correct = evaluation.correct;
    }
    collect(trainer, run);
  };
  comm::run_rank_threads(plan.mesh.ranks(), one_rank, /*timeout_seconds=*/20);
  return run;
}

struct Case {
  std::string golden, preset, mesh;
  std::string precision = "f32";
  std::string more = "";  // of the plan's file: , "key": value
};
std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.golden << " " << c.preset << " on " << c.mesh << " in " << c.precision << c.more;
}

class PlanAgainstOneRank : public testing::TestWithParam<Case> {};

TEST_P(PlanAgainstOneRank, SameLossesAndWeights) {
  const Case& one = GetParam();
  Golden golden = read_golden(one.golden);
  golden.train.precision = one.precision;
  const Plan plan = parse_plan(
      fmt::format(R"({{"mesh": "{}", "preset": "{}"{}}})", one.mesh, one.preset, one.more), "plan");
  if (plan.batch_norm == Plan::BatchNorm::kLocal) golden.model.batch_norm_groups = plan.mesh.ranks();
  const int64_t steps = 4;
  const Outcome expected = run_plan(golden, {}, steps);
  const Outcome found = run_plan(golden, plan, steps);
  const double tolerance = one.precision == "f32" ? 2e-5 : 2e-2;
  // Rounding may move an activation over the edge of a ReLU, and nineteen batch norms amplify what follows.
  const double state_tolerance = (one.golden == "resnet20" ? 50 : 10) * tolerance;
  ASSERT_EQ(found.losses.size(), expected.losses.size());
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(found.losses[i], expected.losses[i], tolerance * expected.losses[i]) << "step " << i;
    EXPECT_NEAR(found.norms[i], expected.norms[i], 10 * tolerance * expected.norms[i]) << "step " << i;
  }
  ASSERT_EQ(found.states.size(), expected.states.size());
  for (const auto& [name, values] : expected.states) {
    const std::vector<float>& others = found.states.at(name);
    ASSERT_EQ(others.size(), values.size()) << name;
    double largest = 0, difference = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, std::abs(static_cast<double>(values[i])));
      difference = std::max(difference, std::abs(static_cast<double>(values[i]) - others[i]));
    }
    EXPECT_LE(difference, state_tolerance * largest + 1e-9) << name;
  }
  EXPECT_EQ(found.correct, expected.correct);
}

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const char* golden :
       {"mlp", "gpt", "gpt_ignored", "gpt_lamb", "llama_accumulated", "lstm", "lenet_lars"}) {
    for (const char* preset : {"data", "zero1", "zero2", "zero3"}) {
      result.push_back({golden, preset, "data:2"});
      // Parts that are not even; a microbatch of two rows is too small for that.
      if (std::string_view(golden) != "llama_accumulated") result.push_back({golden, preset, "data:3"});
    }
  }
  for (const char* golden : {"gpt", "gpt_lamb", "llama"}) {
    result.push_back({golden, "megatron", "tensor:2"});
    result.push_back({golden, "megatron", "data:2 tensor:2"});
    result.push_back({golden, "megatron+zero1", "data:2 tensor:2"});
    result.push_back({golden, "megatron+zero3", "data:2 tensor:2"});
    result.push_back({golden, "megatron+sequence", "tensor:2"});
    result.push_back({golden, "megatron+sequence+zero2", "data:2 tensor:2"});
  }
  // Vocabularies that do not divide, ignored targets.
  result.push_back({"gpt_ignored", "megatron", "tensor:2"});
  result.push_back({"gpt", "megatron", "tensor:2", "bf16"});
  for (const char* golden : {"mlp", "lstm"}) {
    result.push_back({golden, "megatron", "tensor:2"});
    result.push_back({golden, "megatron", "tensor:3"});
    result.push_back({golden, "megatron+zero1", "data:2 tensor:2"});
  }
  for (const char* golden : {"lenet_lars", "resnet20"}) {
    result.push_back({golden, "hybrid_cnn", "tensor:2"});
    result.push_back({golden, "hybrid_cnn+zero1", "data:2 tensor:2"});
  }
  result.push_back({"lenet", "hybrid_cnn", "tensor:3"});
  result.push_back({"resnet20", "data", "data:2"});
  result.push_back({"resnet20", "zero3", "data:2"});
  for (const char* preset : {"data", "hybrid_cnn"}) {
    const std::string mesh = std::string(preset) == "data" ? "data:2" : "tensor:2";
    result.push_back({"resnet20", preset, mesh, "f32", R"(, "batch_norm": "local")"});
  }
  // Layouts of single values, over a preset, over none, and along an axis that no preset knows.
  result.push_back(
      {"gpt", "megatron", "tensor:2", "f32", R"(, "layouts": {"h.0.*": "", "wte.weight": "tensor:1"})"});
  result.push_back({"mlp", "zero1", "data:2 rows:2", "f32",
                    R"(, "layouts": {"layers.0.weight": "rows:0", "layers.1.weight": "rows:1"})"});
  for (const char* preset : {"data", "zero3"}) result.push_back({"gpt", preset, "data:2", "bf16"});
  result.push_back({"gpt", "megatron+zero2", "data:2 tensor:2", "bf16"});
  return result;
}

INSTANTIATE_TEST_SUITE_P(Cases, PlanAgainstOneRank, testing::ValuesIn(cases()), [](const auto& param) {
  const Case& one = param.param;
  std::string name = one.golden + "_" + one.preset + "_" + one.mesh + "_" + one.precision + one.more;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name;
});

}  // namespace
}  // namespace trireme::parity
