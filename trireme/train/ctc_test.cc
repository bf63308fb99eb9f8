// A model of one's own with ctc_loss: it finds out which frames its labels belong to, by one rank and by
// several, and rows that are too short for their labels do not count.
#include <gtest/gtest.h>

#include <algorithm>

#include "trireme/base/rng.h"
#include "trireme/comm/context.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/trainer.h"

namespace trireme {
namespace ctc_test {
namespace {

constexpr int64_t kRows = 10, kFrames = 14, kBands = 6, kMostLabels = 4, kClasses = 5;

ModelRecord speech() {
  ModelRecord model{.family = "speech",
                    .inputs = {{"sound", DType::f32, {kFrames, kBands}},
                               {"labels", DType::i32, {kMostLabels}},
                               {"frame_count", DType::i32, {}},
                               {"label_count", DType::i32, {}}}};
  model.loss = [](Network& net, const ModelOptions&, std::span<const ValueId> inputs) {
    const auto linear = [&](ValueId x, const char* name, int64_t outputs) {
      return net.linear(x, name, outputs, Network::Store::kOutIn, Init::normal(0.4), Bias::kZeros);
    };
    const ValueId logits = linear(net.op("tanh", {linear(inputs[0], "hidden", 16)}), "out", kClasses);
    const std::vector<ValueId> loss = net.node("ctc_loss", {logits, inputs[1], inputs[2], inputs[3]});
    return Loss{loss[0], loss[1]};
  };
  return model;
}

// Each label sounds in a band of its own for one to three frames, with a pause before it.
Batch recordings(uint64_t step) {
  Batch batch;
  batch.rows = kRows;
  for (const SampleTensor& tensor : speech().inputs) {
    Shape shape{kRows};
    for (const int64_t extent : tensor.row) shape.push_back(extent);
    batch.tensors.emplace_back(tensor.name, HostTensor()).second.reset(tensor.dtype, shape);
  }
  for (int64_t row = 0; row < kRows; ++row) {
    const std::span<float> sound = batch.at("sound").row<float>(row);
    const std::span<int32_t> labels = batch.at("labels").row<int32_t>(row);
    uint64_t i = static_cast<uint64_t>(row) * 1000;
    for (float& value : sound) value = 0.2f * normal({step, 11}, i++);
    std::ranges::fill(labels, kIgnoreTarget);
    int64_t frame = 0, count = 0;
    const auto most = static_cast<int64_t>(1 + uniform_integer({step, 12}, i++, kMostLabels));
    while (count < most) {
      const auto lasts = static_cast<int64_t>(1 + uniform_integer({step, 12}, i++, 3));
      if (frame + 1 + lasts > kFrames) break;
      const auto label = static_cast<int32_t>(1 + uniform_integer({step, 12}, i++, kClasses - 1));
      for (int64_t t = frame + 1; t < frame + 1 + lasts; ++t) sound[t * kBands + label] += 1.5f;
      labels[count++] = label;
      frame += 1 + lasts;
    }
    batch.at("frame_count").row<int32_t>(row)[0] = static_cast<int32_t>(frame);
    batch.at("label_count").row<int32_t>(row)[0] = static_cast<int32_t>(count);
  }
  return batch;
}

std::vector<double> losses_of(int64_t steps, const TrainOptions& options = {},
                              const RankOptions& ranks = {}) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Trainer trainer(speech(), options, {.kind = "adam", .weight_decay = 0},
                  {.rows = kRows / options.accumulate}, *device, ranks);
  trainer.initialise(1);
  std::vector<double> losses;
  for (int64_t step = 0; step < steps; ++step) {
    Batch batch = recordings(static_cast<uint64_t>(step));
    losses.push_back(trainer.step(batch, step, 0.02).loss);
  }
  return losses;
}

TEST(Ctc, LabelsFindTheirFrames) {
  const std::vector<double> losses = losses_of(150);
  EXPECT_GT(losses.front(), 3);
  EXPECT_LT(*std::max_element(losses.end() - 10, losses.end()), 0.15 * losses.front());
}

TEST(Ctc, OnSeveralRanksIsThatOfOne) {
  for (const int64_t accumulate : {1, 2}) {
    const TrainOptions options{.accumulate = accumulate};
    const std::vector<double> alone = losses_of(6, options);
    for (const char* preset : {"data", "zero3"}) {
      comm::run_rank_threads(3, [&](comm::Context& context) {
        const Plan plan = read_plan(preset, context.ranks());
        MeshCommunicator communicator(plan.mesh, context);
        const std::vector<double> losses = losses_of(6, options, {plan, context.rank(), &communicator});
        for (size_t i = 0; i < alone.size(); ++i)
          EXPECT_NEAR(losses[i], alone[i], 1e-5 * alone[i]) << preset << " " << i;
      });
    }
  }
}

TEST(Ctc, RowsThatAreTooShortDoNotCount) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Trainer trainer(speech(), {}, {}, {.rows = kRows}, *device);
  trainer.initialise(1);
  const auto evaluate = [&](Batch batch) {
    Evaluation total;
    trainer.evaluate(batch, total);
    return total;
  };
  const Evaluation whole = evaluate(recordings(1));
  EXPECT_EQ(whole.count, kRows);
  Batch shorter = recordings(1);
  shorter.at("frame_count").values<int32_t>()[3] = 1;
  shorter.at("label_count").values<int32_t>()[3] = 2;
  std::ranges::fill(shorter.at("labels").row<int32_t>(3), 1);
  const Evaluation rest = evaluate(shorter);
  EXPECT_EQ(rest.count, kRows - 1);
  // What the row had added is all that is missing.
  Batch row_alone = recordings(1);
  for (int64_t row = 0; row < kRows; ++row) {
    if (row == 3) continue;
    row_alone.at("frame_count").values<int32_t>()[row] = 0;
    row_alone.at("label_count").values<int32_t>()[row] = 1;
  }
  const Evaluation one = evaluate(row_alone);
  EXPECT_EQ(one.count, 1);
  EXPECT_NEAR(rest.loss * rest.count + one.loss, whole.loss * whole.count, 1e-4);
}

}  // namespace
}  // namespace ctc_test
}  // namespace trireme
