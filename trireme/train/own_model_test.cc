// Models outside the table of families: trained like those in it, by one rank and by several, in all
// precisions; and what a record may have wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>

#include "tests/support/error_of.h"
#include "trireme/base/rng.h"
#include "trireme/comm/context.h"
#include "trireme/data/loader.h"
#include "trireme/run/config.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/tensor_access.h"
#include "trireme/train/trainer.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kPoints = 12;

ValueId linear(Network& net, ValueId x, const char* name, int64_t outputs) {
  return net.linear(x, name, outputs, Network::Store::kInOut, Init::normal(0.5), Bias::kZeros);
}

// y = x·a + b, fitted to given values.
ModelRecord line_model() {
  ModelRecord model{.family = "line", .inputs = {{"x", DType::f32, {3}}, {"y", DType::f32, {1}}}};
  model.loss = [](Network& net, const ModelOptions&, std::span<const ValueId> inputs) {
    return net.squared_error(linear(net, inputs[0], "line", 1), inputs[1]);
  };
  return model;
}

// Two classes, told apart by a hidden layer.
ModelRecord class_model() {
  ModelRecord model{.family = "classes", .inputs = {{"x", DType::f32, {3}}, {"kind", DType::i32, {}}}};
  model.logits = [](Network& net, const ModelOptions&, ValueId x) {
    return linear(net, net.op("tanh", {linear(net, x, "hidden", 8)}), "out", 2);
  };
  return model;
}

// Both models' tensors; y = x₀ − 2x₁ + ½, and the kind is whether that is above zero.
Batch points(const ModelRecord& model) {
  Batch batch;
  batch.rows = kPoints;
  for (const SampleTensor& tensor : model.inputs) {
    Shape shape{kPoints};
    for (const int64_t extent : tensor.row) shape.push_back(extent);
    batch.tensors.emplace_back(tensor.name, HostTensor()).second.reset(tensor.dtype, shape);
  }
  for (int64_t i = 0; i < kPoints; ++i) {
    const std::span<float> x = batch.at("x").row<float>(i);
    for (int64_t k = 0; k < 3; ++k) x[k] = normal({1, 2}, static_cast<uint64_t>(3 * i + k));
    const float y = x[0] - 2 * x[1] + 0.5f;
    if (model.loss) batch.at("y").row<float>(i)[0] = y;
    if (model.logits) batch.at("kind").row<int32_t>(i)[0] = y > 0 ? 1 : 0;
  }
  return batch;
}

struct Fitted {
  std::vector<double> losses;
  std::vector<float> weights;
};

Fitted fit(const ModelRecord& model, const TrainOptions& options, int64_t steps,
           const RankOptions& ranks = {}) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Trainer trainer(model, options, {.kind = "adam", .weight_decay = 0}, {.rows = kPoints / options.accumulate},
                  *device, ranks);
  trainer.initialise(1);
  Batch batch = points(model);
  trainer.loss_scale = std::min(trainer.loss_scale, 64.0);  // nothing overflows, so that no step is skipped
  Fitted result;
  for (int64_t step = 0; step < steps; ++step) result.losses.push_back(trainer.step(batch, step, 0.05).loss);
  for (const std::string& name : parameter_names(trainer)) {
    const std::vector<float> values = read_tensor(trainer, name);
    result.weights.insert(result.weights.end(), values.begin(), values.end());
  }
  return result;
}

TEST(OwnModel, WithALossOfItsOwnFindsTheLine) {
  const Fitted result = fit(line_model(), {.clip_norm = 0}, 300);
  EXPECT_LT(result.losses.back(), 1e-4);
  ASSERT_EQ(result.weights.size(), 4u);
  const float expected[] = {1, -2, 0, 0.5};
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(result.weights[i], expected[i], 0.02) << i;
}

TEST(OwnModel, WithLogitsIsEvaluatedToo) {
  const ModelRecord model = class_model();
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Trainer trainer(model, {}, {}, {.rows = kPoints}, *device);
  trainer.initialise(1);
  Batch batch = points(model);
  for (int64_t step = 0; step < 100; ++step) trainer.step(batch, step, 0.05);
  Evaluation result;
  trainer.evaluate(batch, result);
  EXPECT_EQ(result.count, kPoints);
  EXPECT_EQ(result.correct, kPoints);
}

TEST(OwnModel, LearnsInAllPrecisions) {
  for (const ModelRecord& model : {line_model(), class_model()}) {
    const Fitted wide = fit(model, {}, 40);
    for (const char* precision : {"bf16", "f16"}) {
      const Fitted result = fit(model, {.precision = precision}, 40);
      for (size_t i = 0; i < wide.losses.size(); ++i)
        EXPECT_NEAR(result.losses[i], wide.losses[i], 0.03 * wide.losses[0])
            << model.family << precision << i;
    }
  }
}

// Also where rows, microbatches and ranks do not divide.
TEST(OwnModel, OnSeveralRanksIsThatOfOne) {
  for (const ModelRecord& model : {line_model(), class_model()}) {
    for (const int64_t accumulate : {1, 2}) {
      const TrainOptions options{.accumulate = accumulate};
      const Fitted alone = fit(model, options, 10);
      for (const char* preset : {"data", "zero1", "zero3"}) {
        comm::run_rank_threads(3, [&](comm::Context& context) {
          const Plan plan = read_plan(preset, context.ranks());
          MeshCommunicator communicator(plan.mesh, context);
          const Fitted result = fit(model, options, 10, {plan, context.rank(), &communicator});
          for (size_t i = 0; i < alone.losses.size(); ++i)
            EXPECT_NEAR(result.losses[i], alone.losses[i], 1e-5) << model.family << preset << i;
        });
      }
    }
  }
}

TEST(OwnModel, MicrobatchesOneByOneAreTheBatch) {
  const ModelRecord model = line_model();
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Trainer at_once(model, {.accumulate = 3}, {}, {.rows = kPoints / 3}, *device),
      one_by_one(model, {.accumulate = 3}, {}, {.rows = kPoints / 3}, *device);
  Batch batch = points(model);
  for (Trainer* trainer : {&at_once, &one_by_one}) trainer->initialise(1);
  for (int64_t step = 0; step < 3; ++step) {
    at_once.step(batch, step, 0.05);
    for (int64_t i = 0; i < 3; ++i) {
      Batch part = batch;
      for (auto& [name, tensor] : part.tensors) {
        const auto bytes = static_cast<int64_t>(tensor.bytes.size() / 3);
        tensor.bytes = {tensor.bytes.begin() + i * bytes, tensor.bytes.begin() + (i + 1) * bytes};
        tensor.shape.set(0, kPoints / 3);
      }
      one_by_one.forward_backward(part, step, i);
    }
    one_by_one.update(step, 0.05);
  }
  EXPECT_EQ(read_tensor(at_once, "line.weight"), read_tensor(one_by_one, "line.weight"));
  EXPECT_THAT(error_of([&] { one_by_one.forward_backward(batch, 3, 3); }),
              HasSubstr("microbatch 3 of a step"));
}

std::string refusal_of_record(const ModelRecord& model) {
  return error_of([&] { step_graphs(model, {}, {}, {.rows = kPoints}, schedule_of({})); });
}

TEST(OwnModel, WhatARecordHasWrongIsTold) {
  ModelRecord neither = line_model(), both = class_model(), three = class_model(), vector = line_model();
  neither.loss = nullptr;
  EXPECT_THAT(refusal_of_record(neither), HasSubstr("'line' has neither logits nor a loss"));
  both.loss = line_model().loss;
  EXPECT_THAT(refusal_of_record(both), HasSubstr("both logits and a loss"));
  three.inputs.push_back({"more", DType::f32, {}});
  EXPECT_THAT(refusal_of_record(three), HasSubstr("3 tensors"));
  vector.loss = [](Network& net, const ModelOptions&, std::span<const ValueId> inputs) {
    return Loss{linear(net, inputs[0], "line", 1), net.squared_error(inputs[1], inputs[1]).count};
  };
  EXPECT_THAT(refusal_of_record(vector), HasSubstr("the loss of the model 'line' is f32[12,1]"));
  vector.loss = [](Network& net, const ModelOptions&, std::span<const ValueId> inputs) {
    return Loss{net.squared_error(inputs[1], inputs[1]).sum, kNoValue};
  };
  EXPECT_THAT(refusal_of_record(vector), HasSubstr("the count of the model 'line' is missing"));
  EXPECT_THAT(error_of([] { forward_graph(line_model(), {.rows = 1}, DType::f32); }),
              HasSubstr("has a loss, but no logits"));
}

// Mistakes inside a user's model.
TEST(OwnModel, MistakesInAModelAreErrors) {
  const auto refusal_of_record = [](const std::function<ValueId(Network&, ValueId)>& logits) {
    ModelRecord model = class_model();
    model.logits = [&](Network& net, const ModelOptions&, ValueId x) { return logits(net, x); };
    const std::unique_ptr<Device> device = make_cpu_device(1);
    return error_of([&] { Trainer(model, {}, {}, {.rows = kPoints}, *device); });
  };
  EXPECT_THAT(refusal_of_record(
                  [](Network& net, ValueId x) { return linear(net, linear(net, x, "same", 8), "same", 2); }),
              HasSubstr("'same.weight' with the shape [3,8] already, and asks for it with [8,2]"));
  EXPECT_THAT(refusal_of_record([](Network& net, ValueId x) {
                net.buffer("same.weight", {3, 2}, Init::zeros());
                return linear(net, x, "same", 2);
              }),
              HasSubstr("'same.weight' already, as something else than a parameter"));
  EXPECT_THAT(refusal_of_record([](Network& net, ValueId x) { return linear(net, x, "none", 0); }),
              HasSubstr("'none.weight' of the model is [3,0]; every dim must be 1 or more"));
  EXPECT_THAT(refusal_of_record([](Network&, ValueId x) { return x; }), HasSubstr("has no parameters"));
  EXPECT_THAT(refusal_of_record([](Network& net, ValueId x) {
                return linear(net, net.op("cast", {x}, {{"to", "i32"}}), "out", 2);
              }),
              HasSubstr("[cast] 'i32' is no format of real numbers"));
  EXPECT_THAT(refusal_of_record([](Network& net, ValueId x) {
                return net.op("affine", {linear(net, x, "out", 2)}, {{"scael", 2.0}});
              }),
              HasSubstr("[affine] there is no attribute 'scael'; did you mean 'scale'?"));
  EXPECT_THAT(refusal_of_record([](Network& net, ValueId x) {
                return net.op("softmax", {linear(net, x, "out", 2)}, {{"dim", int64_t{0}}});
              }),
              HasSubstr("[softmax] there is no attribute 'dim'; this op has none"));
  EXPECT_THAT(refusal_of_record([](Network& net, ValueId) { return net.op("tanh", {kNoValue}); }),
              HasSubstr("[tanh] an input is value -1"));
}

TEST(OwnModel, IntegersMayBeCastToNumbers) {
  ModelRecord model{.family = "ids", .inputs = {{"n", DType::i32, {3}}, {"kind", DType::i32, {}}}};
  model.logits = [](Network& net, const ModelOptions&, ValueId n) {
    return linear(net, net.op("cast", {n}, {{"to", "f32"}}), "out", 2);
  };
  const std::unique_ptr<Device> device = make_cpu_device(1);
  EXPECT_EQ(error_of([&] { Trainer(model, {}, {}, {.rows = kPoints}, *device); }), "no error");
}

// Ids of a table, or classes, that the model does not have would be left out without a word.
TEST(OwnModel, BatchesThatDoNotFitAreErrors) {
  ModelRecord model{.family = "bag", .inputs = {{"word", DType::i32, {4}}, {"kind", DType::i32, {}}}};
  model.logits = [](Network& net, const ModelOptions&, ValueId words) {
    const ValueId flat = net.reshape(words, {kPoints * 4});
    const ValueId rows = net.op("embedding", {net.table("words", 9, 5, Init::normal(1)), flat});
    return linear(net, net.reshape(rows, {kPoints, 20}), "out", 2);
  };
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Trainer trainer(model, {}, {}, {.rows = kPoints}, *device);
  trainer.initialise(1);
  const auto refusal_of_record = [&](int32_t word, int32_t kind, DType words = DType::i32) {
    Batch batch;
    batch.rows = kPoints;
    batch.tensors.emplace_back("word", HostTensor()).second.reset(words, {kPoints, 4});
    batch.tensors.emplace_back("kind", HostTensor()).second.reset(DType::i32, {kPoints});
    if (words == DType::i32) std::ranges::fill(batch.at("word").values<int32_t>(), 8);
    std::ranges::fill(batch.at("kind").values<int32_t>(), 1);
    if (words == DType::i32) batch.at("word").row<int32_t>(7)[2] = word;
    batch.at("kind").row<int32_t>(5)[0] = kind;
    Evaluation total;
    const std::string trained = error_of([&] { trainer.step(batch, 0, 0.1); }),
                      evaluated = error_of([&] { trainer.evaluate(batch, total); });
    EXPECT_EQ(trained, evaluated);
    return trained;
  };
  EXPECT_EQ(refusal_of_record(0, 0), "no error");
  EXPECT_EQ(refusal_of_record(8, -1), "no error");
  EXPECT_THAT(refusal_of_record(9, 0),
              HasSubstr("the batch's 'word' has 9, but the model has 9 rows of a table"));
  EXPECT_THAT(refusal_of_record(-1, 0), HasSubstr("'word' has -1"));
  EXPECT_THAT(refusal_of_record(0, 2), HasSubstr("the batch's 'kind' has 2, but the model has 2 classes"));
  EXPECT_THAT(refusal_of_record(0, -2), HasSubstr("'kind' has -2"));
  EXPECT_THAT(refusal_of_record(0, 0, DType::f32),
              HasSubstr("the batch's 'word' is f32, but the model takes i32"));
}

// Classes that the model makes from the batch itself are seen only when they are used.
TEST(OwnModel, ClassesThatAreCutFromTheBatchAreCheckedToo) {
  ModelRecord model{.family = "cut", .inputs = {{"x", DType::f32, {3}}, {"kinds", DType::i32, {2}}}};
  model.loss = [](Network& net, const ModelOptions&, std::span<const ValueId> inputs) {
    const ValueId second = net.split(inputs[1], 1, {1, 1})[1];
    return net.cross_entropy(linear(net, inputs[0], "out", 2), net.reshape(second, {kPoints}));
  };
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Trainer trainer(model, {}, {}, {.rows = kPoints}, *device);
  const auto refusal_of_record = [&](int32_t kind) {
    trainer.initialise(1);
    Batch batch;
    batch.rows = kPoints;
    batch.tensors.emplace_back("x", HostTensor()).second.reset(DType::f32, {kPoints, 3});
    batch.tensors.emplace_back("kinds", HostTensor()).second.reset(DType::i32, {kPoints, 2});
    std::ranges::fill(batch.at("kinds").values<int32_t>(), 1);
    batch.at("kinds").row<int32_t>(5)[1] = kind;
    return error_of([&] { trainer.step(batch, 0, 0.1); });
  };
  EXPECT_EQ(refusal_of_record(0), "no error");
  EXPECT_EQ(refusal_of_record(-1), "no error");
  EXPECT_THAT(refusal_of_record(2),
              HasSubstr("[cross_entropy] target 5 is class 2, but there are 2 classes"));
}

TEST(OwnModel, ARankBeyondTheMeshIsAnError) {
  const ModelRecord model = class_model();
  const std::unique_ptr<Device> device = make_cpu_device(1);
  for (const char* plan : {R"({"mesh": "data:2"})", R"({"mesh": "pipe:2"})"}) {
    for (const int rank : {-1, 2}) {
      EXPECT_THAT(error_of([&] {
                    step_program(model, {}, {}, {.rows = kPoints}, *device,
                                 {parse_plan(plan, "a test"), rank, nullptr});
                  }),
                  HasSubstr(fmt::format("rank {} of a plan with", rank)))
          << plan;
    }
  }
}

TEST(OwnModel, LoopsThatCanNotWorkAreErrors) {
  const ModelRecord model = class_model();
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const auto refusal_of_record = [&](const char* plan, Communicator* communicator) {
    return error_of([&] {
      Trainer(model, {}, {.kind = "sgd"}, {.rows = kPoints}, *device,
              {parse_plan(plan, "a test"), 0, communicator});
    });
  };
  EXPECT_THAT(refusal_of_record(R"({"mesh": "data:2"})", nullptr),
              HasSubstr("the plan 'data:2' has 2 ranks, but this one was given no communicator"));
  comm::run_rank_threads(2, [&](comm::Context& context) {
    MeshCommunicator communicator(Mesh({{"data", 2}}), context);
    EXPECT_THAT(refusal_of_record(R"({"mesh": "data:2", "exchange": "server"})", &communicator),
                HasSubstr("train with run_training()"));
    EXPECT_THAT(error_of([&] {
                  Trainer(model, {.shards = 2}, {}, {.rows = kPoints}, *device,
                          {parse_plan(R"({"mesh": "data:2"})", "a test"), context.rank(), &communicator});
                }),
                HasSubstr("train.shards adds up in pairs, and this communicator does not"));
  });
  Trainer trainer(model, {}, {}, {.rows = kPoints}, *device);
  trainer.initialise(1);
  const std::vector<float> before = read_tensor(trainer, "out.weight");
  Batch batch = points(model);
  for (const double rate : {std::nan(""), HUGE_VAL})
    EXPECT_THAT(error_of([&] { trainer.step(batch, 0, rate); }), HasSubstr("the learning rate of step 1 is"));
  EXPECT_EQ(read_tensor(trainer, "out.weight"), before);
  EXPECT_THAT(error_of([&] { batch.at("x").values<int32_t>(); }),
              HasSubstr("f32 [12,3], but was taken for i32"));
  EXPECT_THAT(error_of([] { Loader(nullptr, {}); }), HasSubstr("no data set"));
}

TEST(OwnModel, SettingsAreCheckedByItsRecord) {
  ModelRecord model = line_model();
  model.problems = [](const ModelOptions& options) {
    return options.layers == 1 ? std::vector<std::string>()
                               : std::vector<std::string>{"a line has one layer"};
  };
  Config config;
  config.model.family = "line";
  EXPECT_THAT(config_problems(config), ElementsAre(HasSubstr("model.family")));
  EXPECT_THAT(config_problems(config, model), ElementsAre("a line has one layer"));
  config.model.layers = 1;
  EXPECT_THAT(config_problems(config, model), ElementsAre());
}

TEST(TensorAccess, WeightsAndMeansOfGradients) {
  const ModelRecord model = line_model();
  const std::unique_ptr<Device> device = make_cpu_device(1);
  for (const char* precision : {"f32", "f16"}) {  // the latter with a loss scale
    Trainer trainer(model, {.precision = precision}, {}, {.rows = kPoints}, *device);
    trainer.initialise(1);
    EXPECT_THAT(parameter_names(trainer), ElementsAre("line.weight", "line.bias"));
    write_tensor(trainer, "line.weight", std::vector<float>{0, 0, 0});
    write_tensor(trainer, "line.bias", std::vector<float>{0});
    EXPECT_THAT(read_tensor(trainer, "line.weight"), ElementsAre(0, 0, 0));
    Batch batch = points(model);
    trainer.loss_scale = precision == std::string("f16") ? 16 : 1;
    trainer.forward_backward(batch, 0);
    double mean = 0;  // of −2·y, with a prediction of 0
    for (const float y : batch.at("y").values<float>()) mean += -2.0 * y / kPoints;
    EXPECT_NEAR(read_gradient(trainer, "line.bias")[0], mean, 2e-3) << precision;
  }
}

TEST(TensorAccess, NamesAndSizesAreChecked) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Trainer trainer(line_model(), {}, {}, {.rows = kPoints}, *device);
  EXPECT_THAT(error_of([&] { read_tensor(trainer, "line.weigth"); }),
              HasSubstr("did you mean 'line.weight'?"));
  EXPECT_THAT(error_of([&] {
                write_tensor(trainer, "line.bias", std::vector<float>{1, 2});
              }),
              HasSubstr("2 values were given for 'line.bias'"));
}

}  // namespace
}  // namespace trireme
