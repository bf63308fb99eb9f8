// A run that is stopped, saved and taken up again is the run that was never stopped, bit for bit; dropout,
// running statistics, moments and the loss scale included.
#include <gtest/gtest.h>

#include <filesystem>

#include "golden.h"
#include "tests/support/temp_folder.h"
#include "trireme/checkpoint/tensor_files.h"

namespace trireme::parity {
namespace {

struct ResumeCase {
  const char* golden;
  const char* precision;
  double dropout;
};
std::ostream& operator<<(std::ostream& out, const ResumeCase& c) {
  return out << c.golden << " in " << c.precision;
}

class Resume : public testing::TestWithParam<ResumeCase> {};

TEST_P(Resume, TenStepsAndTenAreTwenty) {
  Golden golden = read_golden(GetParam().golden);
  golden.train.precision = GetParam().precision;
  golden.model.dropout = GetParam().dropout;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const auto make = [&] { return Trainer(golden.model, golden.train, golden.optim, golden.shape, *device); };

  Trainer whole = make();
  start(whole, golden);
  const std::vector<StepResult> expected = train(whole, golden, 0, 20);

  Trainer before = make();
  start(before, golden);
  train(before, golden, 0, 10);
  const TempFolder scratch;
  const std::filesystem::path folder = scratch.path();
  write_safetensors(folder / "model.safetensors", before.model_tensors());
  write_safetensors(folder / "optimizer.safetensors", before.optimizer_tensors());

  Trainer after = make();
  after.initialise(99);  // other weights, so that a tensor that is not restored shows
  TensorFiles(folder / "model.safetensors").read_all(after.model_tensors());
  TensorFiles(folder / "optimizer.safetensors").read_all(after.optimizer_tensors());
  after.loss_scale = before.loss_scale;
  after.scale_age = before.scale_age;
  const std::vector<StepResult> results = train(after, golden, 10, 20);

  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(results[i].loss, expected[10 + i].loss) << "step " << 10 + i;
  EXPECT_TRUE(read_states(after) == read_states(whole));
}

INSTANTIATE_TEST_SUITE_P(Cases, Resume,
                         testing::Values(ResumeCase{"gpt", "f32", 0.1}, ResumeCase{"gpt", "f16", 0.0},
                                         ResumeCase{"llama_accumulated", "bf16", 0.1},
                                         ResumeCase{"lstm", "f32", 0.2}, ResumeCase{"lenet_lars", "f32", 0.0},
                                         ResumeCase{"resnet20", "f32", 0.0},
                                         ResumeCase{"seq2seq", "f32", 0.1}, ResumeCase{"lstm_seq2seq", "f32", 0.1}),
                         [](const auto& param) {
                           return std::string(param.param.golden) + "_" + param.param.precision;
                         });

// The comparison above would pass if dropout did nothing, or did the same in every step.
TEST(Dropout, ChangesWithTheStep) {
  Golden golden = read_golden("gpt");
  golden.model.dropout = 0.1;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Trainer trainer(golden.model, golden.train, golden.optim, golden.shape, *device);
  start(trainer, golden);
  Batch batch = make_batch(golden, 0);
  const double first = trainer.step(batch, 0, 0).loss, again = trainer.step(batch, 0, 0).loss,
               second = trainer.step(batch, 1, 0).loss;
  EXPECT_NE(first, golden.losses[0]);
  EXPECT_EQ(first, again);
  EXPECT_NE(first, second);
}

}  // namespace
}  // namespace trireme::parity
