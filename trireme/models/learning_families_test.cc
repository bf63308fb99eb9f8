// Every family learns: the loss of a few steps on samples that it has not seen before comes down.
#include <gtest/gtest.h>

#include <cmath>

#include "trireme/base/rng.h"
#include "trireme/train/trainer.h"

namespace trireme {
namespace {

constexpr int64_t kRows = 16, kClasses = 4;

struct Case {
  const char* family;
  int64_t layers;
  Shape sample;
  void (*more)(ModelOptions&) = [](ModelOptions&) {};
};

ModelOptions options_of(const Case& one) {
  ModelOptions model;
  model.family = one.family;
  model.layers = one.layers;
  model.heads = 2;
  model.hidden = 16;
  model.feed_forward = 32;
  model.vocab = 27;
  model.seq = 16;
  model.classes = kClasses;
  one.more(model);
  return model;
}

// Waves, whose direction is the class, below noise.
void draw_images(Batch& batch, uint64_t step) {
  HostTensor &images = batch.tensors[0].second, &labels = batch.tensors[1].second;
  const int64_t height = images.shape[2], width = images.shape[3];
  uint64_t i = 0;
  for (int64_t row = 0; row < kRows; ++row) {
    const int64_t label = row % kClasses;
    labels.values<int32_t>()[static_cast<size_t>(row)] = static_cast<int32_t>(label);
    const double angle = 3.14159 * static_cast<double>(label) / kClasses;
    for (float& pixel : images.row<float>(row)) {
      const int64_t place = static_cast<int64_t>(&pixel - images.row<float>(row).data()) % (height * width);
      const double along = std::cos(angle) * static_cast<double>(place % width) +
                           std::sin(angle) * static_cast<double>(place / width);
      pixel = static_cast<float>(std::sin(along)) + 0.5f * normal({step, 1}, i++);
    }
  }
}

// All tokens of a row are the same: what is hidden stands on both sides.
void draw_tokens(Batch& batch, uint64_t step) {
  HostTensor &ids = batch.tensors[0].second, &targets = batch.tensors[1].second;
  for (int64_t row = 0; row < kRows; ++row) {
    const uint64_t first = uniform_integer({step, 2}, static_cast<uint64_t>(row), 26);
    const std::span<int32_t> own = ids.row<int32_t>(row), expected = targets.row<int32_t>(row);
    for (size_t t = 0; t < own.size(); ++t) {
      own[t] = static_cast<int32_t>(first);
      const bool hidden = uniform({step, 3}, static_cast<uint64_t>(row) * own.size() + t) < 0.15f || t == 5;
      expected[t] = hidden ? own[t] : kIgnoreTarget;
      if (hidden) own[t] = 26;
    }
  }
}

class Family : public testing::TestWithParam<Case> {};

TEST_P(Family, LearnsFromSamplesThatItHasNotSeen) {
  const Case& one = GetParam();
  const ModelOptions model = options_of(one);
  const std::unique_ptr<Device> device = make_cpu_device(2);
  TrainOptions train;
  train.batch = kRows;
  Trainer trainer(model, train, {}, {kRows, one.sample}, *device);
  trainer.initialise(1);
  const bool tokens = one.sample.rank() == 1;
  Batch batch;
  batch.rows = kRows;
  for (const SampleTensor& tensor : batch_tensors(find_model(one.family), one.sample)) {
    Shape shape{kRows};
    for (const int64_t extent : tensor.row) shape.push_back(extent);
    batch.tensors.emplace_back(tensor.name, HostTensor{}).second.reset(tensor.dtype, shape);
  }
  const int64_t steps = tokens ? 100 : 60;
  double first = 0, last = 0;  // over ten steps
  for (int64_t step = 0; step < steps; ++step) {
    tokens ? draw_tokens(batch, static_cast<uint64_t>(step))
           : draw_images(batch, static_cast<uint64_t>(step));
    const double loss = trainer.step(batch, step, tokens ? 1e-2 : 3e-3).loss;
    if (step < 10) first += loss / 10;
    if (step >= steps - 10) last += loss / 10;
  }
  EXPECT_LT(last, 0.7 * first) << first << " to " << last;
}

INSTANTIATE_TEST_SUITE_P(
    Small, Family,
    testing::Values(Case{"bert", 2, {16}},
                    Case{"alexnet", 1, {3, 16, 16}, [](ModelOptions& m) { m.channels = 8; }},
                    Case{"vgg", 11, {3, 32, 32}, [](ModelOptions& m) { m.channels = 4; }},
                    Case{"resnet",
                         18,
                         {3, 16, 16},
                         [](ModelOptions& m) {
                           m.channels = 8;
                           m.stem = "3x3";
                         }},
                    Case{"wide_resnet", 10, {3, 16, 16}, [](ModelOptions& m) { m.channels = 4; }},
                    Case{"swin",
                         8,
                         {3, 16, 16},
                         [](ModelOptions& m) {
                           m.patch = 2;
                           m.window = 4;
                         }}),
    [](const auto& tested) { return std::string(tested.param.family); });

}  // namespace
}  // namespace trireme
