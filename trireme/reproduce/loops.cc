// See loops.h.
#include "trireme/reproduce/loops.h"

#include <array>
#include <cmath>

#include "trireme/data/loader.h"
#include "trireme/models/random_batch.h"
#include "trireme/train/trainer.h"

namespace trireme::reproduce {
namespace {

constexpr int64_t kFeatures = 4, kRowsOfMicrobatch = 2;

double norm_of(int64_t microbatches, int64_t rows) {
  ModelOptions model;
  model.family = "mlp";
  model.layers = 2;
  model.hidden = 8;
  model.classes = 3;
  const Shape sample{1, kFeatures, kFeatures};
  const std::unique_ptr<Device> device = make_cpu_device(1);
  Trainer trainer(model, {.batch = rows, .accumulate = microbatches, .clip_norm = 0}, {.kind = "sgd"},
                  {rows / microbatches, sample}, *device);
  trainer.initialise(1);
  Batch batch = random_batch(model, sample, rows, 1);
  return trainer.step(batch, 0, 0).norm;
}

// Samples without content.
class Counted : public DataSet {
 public:
  explicit Counted(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  std::span<const SampleTensor> tensors() const override { return tensors_; }
  void write(int64_t, int64_t, int64_t row, Batch& batch) const override { write_padding(row, batch); }
  void write_padding(int64_t row, Batch& batch) const override { batch.at("x").row<float>(row)[0] = 0; }

 private:
  int64_t size_;
  std::array<SampleTensor, 1> tensors_ = {{{"x", DType::f32, {1}}}};
};

}  // namespace

double accumulated_over_whole(int64_t microbatches) {
  const int64_t rows = microbatches * kRowsOfMicrobatch;
  // To the digits that f32 has on every machine: the page of all entries is compared.
  constexpr double kDigits = 1e5;
  return std::round(kDigits * norm_of(microbatches, rows) / norm_of(1, rows)) / kDigits;
}

double batches_of_epoch(int64_t samples, int64_t batch) {
  Loader loader(std::make_shared<Counted>(samples), {.batch = batch, .prefetch = 0});
  double count = 1;
  while (!loader.next().ends_epoch) ++count;
  return count;
}

}  // namespace trireme::reproduce
