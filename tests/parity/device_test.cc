// Training, checkpoints and sampling work on a device whose memory the host cannot reach, with the same bits;
// ranks too, whatever they send each other.
#include <gtest/gtest.h>

#include <filesystem>

#include "far_device.h"
#include "golden.h"
#include "trireme/comm/context.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/rank_states.h"
#include "trireme/train/sampler.h"

namespace trireme::parity {
namespace {

class FarMemory : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    golden_.model.dropout = 0.1;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  Trainer make(Device& device) {
    return Trainer(golden_.model, golden_.train, golden_.optim, golden_.shape, device);
  }
  void save(Trainer& trainer, int64_t step) {
    TrainState state;
    state.step = step;
    const RankStates share = states_to_write(trainer, {});
    Checkpoints(folder_, 1).save(state, share.model, share.optimizer);
  }
  void load(Trainer& trainer) {
    const LoadedCheckpoint found = *Checkpoints(folder_, 1).load_latest();
    const RankStates states = states_of(trainer);
    found.model.read_all(states.model);
    found.optimizer.read_all(states.optimizer);
  }

  Golden golden_ = read_golden("gpt");
  std::unique_ptr<Device> far_ = make_far_device(), near_ = make_cpu_device(1);
  const std::string folder_ = std::filesystem::path(testing::TempDir()) / "far_memory";
};

TEST_F(FarMemory, CheckpointsGoThereAndBack) {
  Trainer whole = make(*near_), before = make(*far_), after = make(*far_);
  start(whole, golden_);
  start(before, golden_);
  const std::vector<StepResult> expected = train(whole, golden_, 0, 4);
  train(before, golden_, 0, 2);
  save(before, 2);
  after.initialise(99);
  load(after);
  const std::vector<StepResult> results = train(after, golden_, 2, 4);
  EXPECT_EQ(results[1].loss, expected[3].loss);
  EXPECT_TRUE(read_states(after) == read_states(whole));
}

TEST_F(FarMemory, SamplesAreTheSame) {
  Trainer trainer = make(*far_);
  start(trainer, golden_);
  save(trainer, 0);
  const auto drawn = [&](Device& device) {
    Sampler sampler(golden_.model, device);
    sampler.load(Checkpoints(folder_, 1).load_latest()->model);
    std::vector<int32_t> tokens;
    sampler.generate(std::vector<int32_t>{1, 2}, {.tokens = 5}, [&](int32_t t) { tokens.push_back(t); });
    return tokens;
  };
  EXPECT_EQ(drawn(*far_), drawn(*near_));
}

// Every kind of collective, in the call and started early.
TEST_F(FarMemory, RanksSendEachOtherTheSame) {
  for (const auto& [preset, mesh] :
       {std::pair("data", "data:2"), std::pair("zero2", "data:3"), std::pair("zero3", "data:2"),
        std::pair("megatron", "tensor:2"), std::pair("megatron+sequence+zero3", "data:2 tensor:2")}) {
    const Plan plan{.mesh = parse_mesh(mesh), .preset = preset};
    std::vector<States> near(plan.mesh.ranks()), far = near;
    comm::run_rank_threads(plan.mesh.ranks(), [&](comm::Context& context) {
      const std::unique_ptr<Device> devices[] = {make_cpu_device(1), make_far_device()};
      for (const auto& device : devices) {
        MeshCommunicator communicator(plan.mesh, context);
        Trainer trainer(golden_.model, golden_.train, golden_.optim, golden_.shape, *device,
                        {plan, context.rank(), &communicator});
        trainer.initialise(3);
        train(trainer, golden_, 0, 3);
        (device->name() == "far" ? far : near)[context.rank()] = read_states(trainer);
      }
    });
    EXPECT_TRUE(far == near) << preset << " on " << mesh;
  }
}

}  // namespace
}  // namespace trireme::parity
