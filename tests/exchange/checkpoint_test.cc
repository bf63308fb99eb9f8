// What methods keep is saved, and a run that goes on has the bits of one that never stopped; under another
// number of ranks it starts anew, with a word.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/exchange/ranks.h"
#include "tests/support/temp_folder.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/rank_states.h"

namespace trireme::testing {
namespace {

namespace fs = std::filesystem;

struct Outcome {
  std::vector<float> states, other_states;  // of ranks 0 and 1: weights and what is kept
  std::string told;
};

// Steps [from, to); goes on from the folder where from is not 0, and saves there in the end.
Outcome train(const std::string& folder, const Plan& plan, int64_t from, int64_t to,
              const char* optimizer = "sgd", Training training = small_mlp()) {
  training.optim.kind = optimizer;
  Outcome result;
  comm::run_rank_threads(plan.mesh.ranks(), [&](comm::Context& context) {
    MeshCommunicator communicator(plan.mesh, context);
    const std::unique_ptr<Device> device = make_cpu_device(1);
    const RankOptions ranks{plan, context.rank(), &communicator};
    Trainer trainer(training.model, training.train, training.optim, training.shape, *device, ranks);
    Checkpoints checkpoints(folder, 3, checkpoint_peers(ranks));
    std::string told;
    if (from == 0)
      trainer.initialise(1);
    else
      told = restore(trainer, *checkpoints.load_latest());
    for (int64_t step = from; step < to; ++step) {
      Batch batch = random_batch(training, step);
      trainer.step(batch, step, 0.1);
    }
    save(checkpoints, {.step = to, .seed = 1}, trainer, ranks);
    if (context.rank() > 1) return;
    if (context.rank() == 0) result.told = told;
    std::vector<float>& states = context.rank() == 0 ? result.states : result.other_states;
    for (const State& state : trainer.program().states) {
      if (!is_lasting(state.role)) continue;
      std::vector<float> values(state.type.shape.elements());
      trainer.executor().read_state(state.name, values.data(), state.type.bytes());
      states.insert(states.end(), values.begin(), values.end());
    }
  });
  return result;
}

class ExchangeCheckpoint : public ::testing::Test {
 protected:
  std::string folder(const char* name) {
    const fs::path path = scratch_.path() / name;
    fs::remove_all(path);
    fs::create_directories(path);
    return path.string();
  }
  const TempFolder scratch_;
};

TEST_F(ExchangeCheckpoint, GoesOnWithTheSameBits) {
  for (const char* method :
       {R"("top_k")", R"("dgc")", R"("power_sgd")", R"("one_bit")", R"("signum")", R"("shared_pattern")",
        R"("pruned_ring")", R"({"method": "dgc", "ratio": 0.05, "warmup": 4})",
        R"({"method": "one_bit_adam", "warmup": 3})"}) {
    for (const auto& [mesh, preset] :
         {std::pair("data:2", "data"), std::pair("data:2", "zero3"), std::pair("pipe:2 data:2", "data"),
          std::pair("data:2 replica:2", "data")}) {
      if (std::string_view(mesh) == "pipe:2 data:2" &&
          std::string_view(method).find("warmup") != std::string::npos)
        continue;
      SCOPED_TRACE(fmt::format("{} {} {}", method, mesh, preset));
      const Plan plan = plan_of(mesh, method, preset);
      const std::string once = folder("once"), twice = folder("twice");
      const Outcome whole = train(once, plan, 0, 6);
      train(twice, plan, 0, 3);
      const Outcome second = train(twice, plan, 3, 6);
      EXPECT_EQ(second.told, "");
      EXPECT_EQ(second.states, whole.states);
      EXPECT_EQ(second.other_states, whole.other_states);
    }
  }
}

// Between two agreements, with weights and moments that each rank has for itself, and with what is under way.
TEST_F(ExchangeCheckpoint, RanksThatGoOnByThemselvesGoOnWithTheSameBits) {
  for (const char* exchange :
       {R"({"method": "local", "steps": 4})", R"({"method": "fedavg", "steps": 4})",
        R"({"method": "fedavg", "steps": 2, "fraction": 0.5})",
        R"({"method": "fedavg", "steps": 1, "clients": 8})", R"({"method": "diloco", "steps": 2})",
        R"({"method": "delayed", "delay": 3, "period": 2})",
        R"({"method": "delayed", "delay": 2, "correction": false})", R"("d_psgd")", R"("sgp")"}) {
    for (const Training& training : {small_mlp(), small_resnet()}) {
      SCOPED_TRACE(training.model.family);
      const Plan plan = plan_of("data:2", exchange);
      const std::string once = folder("once"), twice = folder("twice");
      const Outcome whole = train(once, plan, 0, 6, "adamw", training);
      train(twice, plan, 0, 3, "adamw", training);
      const Outcome second = train(twice, plan, 3, 6, "adamw", training);
      EXPECT_EQ(second.told, "");
      EXPECT_EQ(second.states, whole.states) << exchange;
      EXPECT_EQ(whole.other_states == whole.states, false) << exchange;
      EXPECT_EQ(second.other_states, whole.other_states) << exchange;
    }
  }
  for (const auto& [mesh, preset] :
       {std::pair("data:2 tensor:2", "megatron"), std::pair("pipe:2 data:2", "data"),
        std::pair("data:2 pipe:2", "data"), std::pair("replica:2 data:2", "zero1"),
        std::pair("data:2 replica:2", "zero3")}) {
    for (const char* exchange :
         {R"({"method": "fedavg", "steps": 2, "fraction": 0.5})", R"({"method": "diloco", "steps": 2})",
          R"({"method": "delayed", "delay": 3, "period": 2})", R"("sgp")"}) {
      SCOPED_TRACE(fmt::format("{} {}", mesh, exchange));
      const Plan plan = plan_of(mesh, exchange, preset);
      const std::string once = folder("once"), twice = folder("twice");
      const Outcome whole = train(once, plan, 0, 6, "adamw", small_gpt());
      train(twice, plan, 0, 3, "adamw", small_gpt());
      const Outcome second = train(twice, plan, 3, 6, "adamw", small_gpt());
      EXPECT_EQ(second.told, "");
      EXPECT_EQ(second.states, whole.states);
      EXPECT_EQ(second.other_states, whole.other_states);
    }
  }
  const std::string path = folder("fewer");
  const char* local = R"({"method": "local", "steps": 4})";
  train(path, plan_of("data:2", local), 0, 3, "adamw");
  EXPECT_THAT(train(path, plan_of("data:3", local), 3, 4, "adamw").told, ::testing::HasSubstr("starts anew"));
  EXPECT_EQ(train(path, plan_of("data:2", R"("all_reduce")"), 4, 5, "adamw").told, "");
}

TEST_F(ExchangeCheckpoint, StartsAnewWithAWordUnderOtherRanksOrMethods) {
  const std::string path = folder("other");
  train(path, plan_of("data:2", R"("top_k")"), 0, 2);
  EXPECT_THAT(train(path, plan_of("data:3", R"("top_k")"), 2, 4).told, ::testing::HasSubstr("starts anew"));
  EXPECT_THAT(train(path, plan_of("data:3", R"("power_sgd")"), 4, 6).told,
              ::testing::HasSubstr("starts anew"));
  EXPECT_EQ(train(path, plan_of("data:2", R"("all_reduce")"), 6, 8).told, "");
}

}  // namespace
}  // namespace trireme::testing
