// Training, checkpoints and sampling work on a device whose memory the host cannot reach, with the same bits;
// ranks too, whatever they send each other.
#include <gtest/gtest.h>

#include <filesystem>

#include "far_device.h"
#include "golden.h"
#include "tests/support/temp_folder.h"
#include "trireme/comm/context.h"
#include "trireme/ir/text.h"
#include "trireme/ops/table.h"
#include "trireme/run/sampler.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/rank_states.h"

namespace trireme::parity {
namespace {

class FarMemory : public testing::Test {
 protected:
  void SetUp() override { golden_.model.dropout = 0.1; }
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

  // Three steps of each rank, and its states.
  void train_on_both(const Plan& plan, std::vector<States>& near, std::vector<States>& far) {
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
  }

  Golden golden_ = read_golden("gpt");
  std::unique_ptr<Device> far_ = make_far_device(), near_ = make_cpu_device(1);
  const TempFolder scratch_;
  const std::string folder_ = scratch_.path();
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
    train_on_both(plan, near, far);
    EXPECT_TRUE(far == near) << preset << " on " << mesh;
  }
}

// Whether they agree in every step, now and then, or with their neighbours alone.
TEST_F(FarMemory, RanksAgreeTheSame) {
  for (const char* exchange : {R"({"method": "all_reduce", "wire": "bf16"})",
                               R"({"method": "top_k", "ratio": 0.1})", R"({"method": "fedavg", "steps": 2})",
                               R"({"method": "delayed", "delay": 2})", R"("d_psgd")", R"("sgp")"}) {
    const Plan plan =
        parse_plan(fmt::format(R"({{"mesh": "data:2", "exchange": {}}})", exchange), "a plan of the test");
    std::vector<States> near(plan.mesh.ranks()), far = near;
    train_on_both(plan, near, far);
    EXPECT_TRUE(far == near) << exchange;
  }
}

// A large input that is read at the beginning alone may come while the run before still computes; what is
// small, or read until the end, may not.
TEST_F(FarMemory, TheNextInputComesAhead) {
  const Graph graph = parse_graph(
      "graph g\ninput %x: f32[1024,512] batch\ninput %t: f32[512] batch\n"
      "%a: f32[512] = sum(%x) {dims=[0]}\n%b: f32[512] = affine(%a) {scale=2.0}\n"
      "%c: f32[512] = add(%b, %t)\n%d: f32[512] = affine(%c) {shift=1.0}\noutput d = %d\n",
      ops());
  Executor executor(build_program({StepSegment(graph)}, workspace_query(*far_)), *far_);
  const auto filled = [](size_t size, float value) { return std::vector<float>(size, value); };
  const auto bytes = [](const std::vector<float>& values) { return values.size() * sizeof(float); };
  const std::vector<float> ones = filled(1024 * 512, 1), twos = filled(1024 * 512, 2), more = filled(512, 10);
  EXPECT_FALSE(executor.set_next_input(0, "x", twos.data(), bytes(twos)));  // nothing has run yet
  executor.set_input(0, "x", ones.data(), bytes(ones));
  executor.set_input(0, "t", more.data(), bytes(more));
  executor.run(0);
  EXPECT_TRUE(executor.set_next_input(0, "x", twos.data(), bytes(twos)));
  EXPECT_FALSE(executor.set_next_input(0, "t", more.data(), bytes(more)));
  std::vector<float> found(512);
  executor.read_output(0, "d", found.data(), bytes(found));
  EXPECT_EQ(found[5], 2 * 1024 + 11);
  executor.run(0);
  executor.read_output(0, "d", found.data(), bytes(found));
  EXPECT_EQ(found[5], 4 * 1024 + 11);
}

}  // namespace
}  // namespace trireme::parity
