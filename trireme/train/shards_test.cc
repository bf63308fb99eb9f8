// The same bits on 1, 2 and 4 ranks, which are threads here; tests/cli/elastic_test.py has processes and
// other transports.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <mutex>

#include "trireme/base/error.h"
#include "trireme/base/rng.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/axis_algorithms.h"
#include "trireme/train/trainer.h"

namespace trireme {
namespace {

constexpr int64_t kBatch = 8;

struct Case {
  std::string family;
  std::string precision = "f32";
};

Batch make_batch(const Case& one, int64_t step) {
  Batch batch;
  const RngKey key{3, static_cast<uint64_t>(step)};
  HostTensor inputs, targets;
  if (one.family == "gpt") {
    for (HostTensor* tensor : {&inputs, &targets}) {
      tensor->reset(DType::i32, {kBatch, 8});
      uint64_t element = tensor == &inputs ? 0 : 1000;
      for (int32_t& value : tensor->values<int32_t>())
        value = static_cast<int32_t>(uniform(key, element++) * 20);
    }
    for (int32_t& value : targets.row<int32_t>(1)) value = -1;  // uneven counts
    batch.tensors = {{"ids", inputs}, {"targets", targets}};
    return batch;
  }
  inputs.reset(DType::f32, {kBatch, 3, 8, 8});
  targets.reset(DType::i32, {kBatch});
  uint64_t element = 0;
  for (float& value : inputs.values<float>()) value = uniform(key, element++);
  for (int32_t& value : targets.values<int32_t>()) value = static_cast<int32_t>(uniform(key, element++) * 10);
  batch.tensors = {{"images", inputs}, {"labels", targets}};
  return batch;
}

struct Outcome {
  std::map<std::string, std::vector<float>> states;
  std::vector<double> losses;
  double correct = 0;
};

Outcome run(const Case& one, int64_t shards, int ranks, int threads) {
  ModelOptions model;
  model.family = one.family;
  model.layers = one.family == "resnet" ? 8 : 2;
  model.heads = 2;
  model.hidden = 16;
  model.vocab = 20;
  model.seq = 8;
  model.classes = 10;
  model.dropout = one.family == "gpt" ? 0.2 : 0.0;
  TrainOptions train;
  train.shards = shards;
  train.precision = one.precision;
  Outcome outcome;
  std::mutex mutex;
  comm::run_rank_threads(ranks, [&](comm::Context& context) {
    const Plan plan{.mesh = Mesh({{"data", ranks}})};
    MeshCommunicator communicator(plan.mesh, context, axis_algorithms(plan, train));
    const std::unique_ptr<Device> device = make_cpu_device(threads);
    const Shape sample = one.family == "gpt" ? Shape{8} : Shape{3, 8, 8};
    Trainer trainer(model, train, {}, {kBatch, sample}, *device,
                    {plan, context.rank(), ranks > 1 ? &communicator : nullptr});
    trainer.initialise(1);
    std::vector<double> losses;
    for (int64_t step = 0; step < 3; ++step) {
      Batch batch = make_batch(one, step);
      losses.push_back(trainer.step(batch, step, 1e-2).loss);
    }
    Batch batch = make_batch(one, 0);
    Evaluation evaluation;
    trainer.evaluate(batch, evaluation);
    const std::lock_guard lock(mutex);
    if (context.rank() != ranks - 1) return;  // any of them
    outcome.losses = losses;
    outcome.correct = evaluation.correct;
    for (const auto& tensors : {trainer.model_tensors(), trainer.optimizer_tensors()}) {
      for (const NamedTensor& tensor : tensors) {
        std::vector<float>& values = outcome.states[tensor.name];
        values.resize(tensor.view.elements());
        trainer.executor().read_state(tensor.name, values.data(), tensor.view.bytes());
      }
    }
  });
  return outcome;
}

class Elastic : public testing::TestWithParam<Case> {};

TEST_P(Elastic, SameBitsForAnyNumberOfRanksAndThreads) {
  for (const int64_t shards : {4, 8}) {
    const Outcome expected = run(GetParam(), shards, 1, 1);
    for (const auto& [ranks, threads] : {std::pair{1, 2}, {2, 1}, {2, 2}, {4, 1}}) {
      const Outcome found = run(GetParam(), shards, ranks, threads);
      EXPECT_EQ(found.losses, expected.losses) << ranks << " ranks";
      EXPECT_EQ(found.correct, expected.correct) << ranks << " ranks";
      ASSERT_EQ(found.states.size(), expected.states.size());
      for (const auto& [name, values] : expected.states) {
        const std::vector<float>& others = found.states.at(name);
        EXPECT_EQ(std::memcmp(values.data(), others.data(), values.size() * sizeof(float)), 0)
            << name << " on " << ranks << " ranks of " << threads << " threads, " << shards << " shards";
      }
    }
  }
}

// In an mlp, where shards have neither random numbers nor statistics of their own.
TEST(Shards, ChangeRoundingOnly) {
  const Outcome whole = run({"mlp"}, 0, 1, 1), shards = run({"mlp"}, 4, 1, 1);
  for (size_t i = 0; i < whole.losses.size(); ++i)
    EXPECT_NEAR(shards.losses[i], whole.losses[i], 1e-5 * whole.losses[i]);
}

// Their sums are part of the step, so that one of them alone can not be computed.
TEST(Shards, AreNotGivenOneByOne) {
  ModelOptions model;
  model.family = "mlp";
  model.hidden = 8;
  model.classes = 10;
  TrainOptions train;
  train.shards = 4;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Trainer trainer(model, train, {}, {kBatch, {3, 8, 8}}, *device);
  trainer.initialise(1);
  Batch batch = make_batch({"mlp"}, 0);
  EXPECT_THAT([&] { trainer.forward_backward(batch, 0, 1); },
              testing::ThrowsMessage<Error>(testing::HasSubstr("(train.shards, or a pipeline)")));
}

INSTANTIATE_TEST_SUITE_P(Models, Elastic,
                         testing::Values(Case{"gpt"}, Case{"gpt", "bf16"}, Case{"gpt", "f16"}, Case{"mlp"},
                                         Case{"resnet"}),
                         [](const auto& param) { return param.param.family + "_" + param.param.precision; });

}  // namespace
}  // namespace trireme
