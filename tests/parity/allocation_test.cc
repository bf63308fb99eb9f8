// After its first step a trainer touches the heap no more: every byte was planned. Counted by replacing
// operator new for the whole program.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "golden.h"

namespace {

std::atomic<int64_t> allocations{0};

void* counted(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  const std::size_t rounded = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  void* memory =
      alignment <= alignof(std::max_align_t) ? std::malloc(rounded) : std::aligned_alloc(alignment, rounded);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

// The forms for arrays and those without exceptions call these.
void* operator new(std::size_t bytes) {
  return counted(bytes, alignof(std::max_align_t));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace trireme::parity {
namespace {

class Allocation : public testing::TestWithParam<std::string> {};

TEST_P(Allocation, NoneAfterTheFirstStep) {
  Golden golden = read_golden(GetParam());
  golden.model.dropout = 0.1;
  for (const char* precision : {"f32", "bf16"}) {
    golden.train.precision = precision;
    const std::unique_ptr<Device> device = make_cpu_device(2);
    Trainer trainer(golden.model, golden.train, golden.optim, golden.shape, *device);
    start(trainer, golden);
    Batch batch = make_batch(golden, 0);
    trainer.step(batch, 0, 1e-3);
    const int64_t before = allocations;
    for (int64_t step = 1; step < 4; ++step) trainer.step(batch, step, 1e-3);
    EXPECT_EQ(allocations - before, 0) << precision;
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Allocation,
                         testing::Values("gpt", "gpt_lamb", "llama_accumulated", "lstm", "mlp", "lenet_lars",
                                         "resnet20"),
                         [](const auto& param) { return param.param; });

TEST(Allocation, IsCounted) {
  const int64_t before = allocations;
  const std::string text(1000, 'x');
  EXPECT_EQ(allocations - before, 1) << text.size();
}

}  // namespace
}  // namespace trireme::parity
