// Models that PyTorch exported (onnx/make_onnx.py) train as they did there, under plans too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "golden.h"
#include "tests/support/error_of.h"
#include "trireme/train/parity/verify.h"
#include "trireme/train/tensor_access.h"

namespace trireme::parity {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

std::string onnx_path(const std::string& name, const char* ending) {
  return std::string(TRIREME_GOLDEN_DIR) + "/../onnx/" + name + ending;
}

// The folder of models of full size that make_onnx.py made; empty where the variable is not set.
std::string full_size_folder() {
  const char* folder = std::getenv("TRIREME_ONNX_MODELS");
  return folder != nullptr ? folder : "";
}

// The function `integers` of make_onnx.py.
int64_t integer_of(int64_t index, int64_t step, int64_t bound) {
  const auto hash = static_cast<uint64_t>(index + 1000003 * step) * 2654435761U + 12345;
  return static_cast<int64_t>((hash & 0xffffffff) / 65536) % bound;
}

HostTensor& add_tensor(Batch& batch, const char* name, DType dtype, const Shape& shape) {
  HostTensor& tensor = batch.tensors.emplace_back(name, HostTensor{}).second;
  tensor.reset(dtype, shape);
  return tensor;
}

void fill(HostTensor& tensor, int64_t step, int64_t bound) {
  int64_t i = 0;
  for (int32_t& value : tensor.values<int32_t>()) value = static_cast<int32_t>(integer_of(i++, step, bound));
}

struct Recorded {
  Training training;
  std::vector<double> losses, losses_in_double, noise;
  std::map<std::string, std::vector<double>> tensors;  // elements, evenly spaced
};

// `path` without its ending.
Recorded read_recorded(const std::string& path) {
  const nlohmann::json json = nlohmann::json::parse(std::ifstream(path + ".json"));
  const std::vector<int64_t> sample = json.at("sample");
  const int64_t rows = json.at("rows"), classes = json.at("classes");
  const bool tokens = sample.size() == 1;
  ModelOptions model{.family = "onnx", .path = path + ".onnx"};
  (tokens ? model.vocab : model.classes) = classes;
  if (tokens) model.seq = sample[0];
  TrainOptions train;
  train.batch = rows;
  train.clip_norm = 0;
  OptimOptions optim;
  optim.kind = "sgd";
  optim.weight_decay = 0;
  Recorded result{{Model(model), train, optim, {rows, Shape(std::span(sample))}, {}, {}},
                  json.at("losses"),
                  json.value("losses_in_double", std::vector<double>()),
                  json.value("noise", std::vector<double>()),
                  json.at("tensors")};
  Shape whole{rows};
  for (const int64_t extent : sample) whole.push_back(extent);
  for (int64_t step = 0; step < static_cast<int64_t>(result.losses.size()); ++step) {
    Batch& batch = result.training.batches.emplace_back();
    batch.rows = rows;
    if (tokens) {
      fill(add_tensor(batch, "ids", DType::i32, whole), step, classes);
      fill(add_tensor(batch, "targets", DType::i32, whole), step + 500, classes);
    } else {
      int64_t i = 0;
      for (float& value : add_tensor(batch, "images", DType::f32, whole).values<float>())
        value = static_cast<float>(integer_of(i++, step, 256)) / 64 - 2;
      fill(add_tensor(batch, "labels", DType::i32, {rows}), step + 500, classes);
    }
    result.training.rates.push_back(json.at("rate"));
  }
  return result;
}

class OnnxModels : public testing::TestWithParam<const char*> {};

TEST_P(OnnxModels, TrainTenStepsAsInPyTorch) {
  Recorded recorded = read_recorded(onnx_path(GetParam(), ""));
  const Training& training = recorded.training;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Trainer trainer(training.model, training.train, training.optim, training.shape, *device);
  trainer.initialise(1);
  for (size_t step = 0; step < recorded.losses.size(); ++step) {
    const double loss =
        trainer.step(recorded.training.batches[step], static_cast<int64_t>(step), training.rates[step]).loss;
    EXPECT_NEAR(loss, recorded.losses[step], 2e-5 * recorded.losses[step]) << "step " << step;
  }
  for (const auto& [name, expected] : recorded.tensors) {
    const std::vector<float> values = read_tensor(trainer, name);
    for (size_t i = 0; i < expected.size(); ++i) {
      const size_t at = i * values.size() / 8;
      EXPECT_NEAR(values.at(at), expected[i], 2e-4 * std::max(1.0, std::abs(expected[i])))
          << name << " " << i;
    }
  }
}

TEST_P(OnnxModels, PlansDifferFromOneRankByRoundingAlone) {
  Recorded recorded = read_recorded(onnx_path(GetParam(), ""));
  recorded.training.batches.resize(2);
  recorded.training.rates.resize(2);
  Reference reference(recorded.training);
  for (const char* text :
       {R"({"mesh": "data:2", "preset": "data"})", R"({"mesh": "data:2", "preset": "zero1"})",
        R"({"mesh": "data:2", "preset": "zero3"})", R"({"mesh": "pipe:2", "accumulate": 1})"}) {
    const Result result = verify(reference, read_plan(text, 2));
    EXPECT_THAT(result.verdict, AnyOf(Verdict::kEqual, Verdict::kRounding)) << text << ": " << result.reason;
  }
  const Result split = verify(reference, read_plan(R"({"mesh": "tensor:2", "preset": "megatron"})", 2));
  EXPECT_EQ(split.verdict, Verdict::kRefused) << split.reason;
}

INSTANTIATE_TEST_SUITE_P(Exported, OnnxModels, testing::Values("resnet", "mobilenet", "bert", "gpt", "llama"),
                         [](const auto& param) { return std::string(param.param); });

// A loss may be three times as far from PyTorch's in double precision as PyTorch's own in f32 are, over five
// runs whose weights differ by 1e-6: the batch norms of a deep network that was just drawn make a per cent of
// that within a step.
TEST(OnnxFullSize, TrainsTenStepsAsInPyTorch) {
  if (full_size_folder().empty())
    GTEST_SKIP()
        << "TRIREME_ONNX_MODELS is not set: tests/parity/onnx/make_onnx.py --full FOLDER makes the models";
  for (const char* name : {"resnet50", "mobilenet_v2", "bert_base", "gpt2", "llama"}) {
    Recorded recorded = read_recorded(full_size_folder() + "/" + name);
    const Training& training = recorded.training;
    const std::unique_ptr<Device> device = make_cpu_device(2);
    Trainer trainer(training.model, training.train, training.optim, training.shape, *device);
    trainer.initialise(1);
    double off = 0, noise = 1e-6;
    for (size_t step = 0; step < recorded.losses.size(); ++step) {
      const double loss =
          trainer.step(recorded.training.batches[step], static_cast<int64_t>(step), training.rates[step])
              .loss;
      const double exact = recorded.losses_in_double.at(step);
      off = std::max(off, std::abs(loss - exact) / exact);
      noise = std::max(noise, recorded.noise.at(step) / exact);
      EXPECT_LE(off, 3 * noise) << name << ", step " << step;
    }
    std::printf("%s: losses differ by %.1e, PyTorch's by %.1e\n", name, off, noise);
  }
}

TEST(Onnx, WhatIsNoModelIsRefused) {
  const auto refused = [](const std::string& path) {
    return error_of([&] { Model(ModelOptions{.family = "onnx", .path = path}); });
  };
  EXPECT_THAT(refused(onnx_path("gpt", ".json")), HasSubstr("this is no ONNX file"));
  EXPECT_THAT(refused("nowhere.onnx"), HasSubstr("nowhere.onnx"));
  ModelOptions many{.family = "onnx", .path = onnx_path("resnet", ".onnx")};
  many.classes = 11;
  EXPECT_THAT(error_of([&] {
                step_graphs(Model(many), {}, {}, {2, {3, 32, 32}}, schedule_of({}));
              }),
              HasSubstr("has 10 classes, but model.classes = 11"));
}

}  // namespace
}  // namespace trireme::parity
