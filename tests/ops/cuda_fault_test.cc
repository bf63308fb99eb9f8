// A kernel that goes wrong on the GPU: relu writes to where there is no memory. In the usual order that shows
// later, and no op must be blamed; in debug order it is relu's error, also where a replay would have hidden
// it. Each in a process of its own, because the GPU is of no use to it afterwards. That process is this
// program started anew: GoogleTest's death tests fork, which a process that has used the GPU does not
// survive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "trireme/ir/builder.h"
#include "trireme/kernels/cuda/table.h"
#include "trireme/kernels/device_fault.h"
#include "trireme/ops/table.h"
#include "trireme/runtime/device.h"
#include "trireme/runtime/executor.h"

namespace trireme::testing {
namespace {

constexpr int kExpectedError = 7;
constexpr int64_t kCount = 1 << 20;
constexpr int kSoundRuns = 1;  // the next one is noted down, to be replayed

int runs_of_relu = 0;

void broken_relu(const KernelContext& context) {
  const Kernel& sound = *cuda_kernels().find("relu", DType::f32);
  std::vector<TensorView> outputs(context.outputs.begin(), context.outputs.end());
  if (++runs_of_relu > kSoundRuns) outputs[0].data = reinterpret_cast<void*>(4096);
  sound.launch({context.inputs, outputs, context.attrs, context.device, context.workspace});
}

class BrokenDevice : public Device {
 public:
  explicit BrokenDevice(std::unique_ptr<Device> sound) : sound_(std::move(sound)) {
    for (const auto& [key, kernel] : sound_->kernels().all())
      kernels_.add(key.first, key.second, key.first == "relu" ? Kernel{.run = broken_relu} : kernel);
  }
  std::string name() const override { return sound_->name(); }
  std::string description() const override { return sound_->description(); }
  Buffer allocate(size_t bytes) override { return sound_->allocate(bytes); }
  Memory memory() const override { return sound_->memory(); }
  std::unique_ptr<Stream> make_stream() override { return sound_->make_stream(); }
  const KernelTable& kernels() const override { return kernels_; }
  int threads() const override { return sound_->threads(); }

 private:
  std::unique_ptr<Device> sound_;
  KernelTable kernels_;
};

Program relu_between_others(const Device& device) {
  Builder b(ops(), "step");
  const ValueId x = b.input("x", {DType::f32, {kCount}});
  b.output("y", b.op("exp", {b.op("relu", {b.op("exp", {x})})}));
  return build_program({b.take()}, workspace_query(device));
}

// Runs until the fault shows, prints it and ends the process.
void run_into_fault(std::unique_ptr<Device> sound) {
  BrokenDevice device(std::move(sound));
  Executor executor(relu_between_others(device), device);
  const std::vector<float> x(kCount, 0.5f);
  executor.set_input(0, "x", x.data(), x.size() * sizeof(float));
  std::vector<float> y(kCount);
  try {
    for (int run = 0; run < kSoundRuns + 4; ++run) executor.run(0);
    executor.read_output(0, "y", y.data(), y.size() * sizeof(float));
  } catch (const Error& error) {
    fmt::print(stderr, "{}: {}\n", dynamic_cast<const DeviceFault*>(&error) ? "fault" : "error",
               error.what());
    std::_Exit(kExpectedError);
  }
  std::_Exit(0);
}

struct Ended {
  int code;
  std::string output;
};
// This program with one of its disabled tests alone.
Ended run_apart(const std::string& test) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command =
      fmt::format("'{}' --gtest_also_run_disabled_tests --gtest_filter='{}' 2>&1", program, test);
  FILE* const pipe = popen(command.c_str(), "r");
  if (!pipe) return {-1, "popen failed"};
  Ended ended;
  char part[4096];
  while (const size_t size = fread(part, 1, sizeof(part), pipe)) ended.output.append(part, size);
  const int status = pclose(pipe);
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ended;
}

class CudaFault : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  }
};

TEST(CudaFaultProcess, DISABLED_InUsualOrder) {
  run_into_fault(make_cuda_device(0));
}
TEST(CudaFaultProcess, DISABLED_InDebugOrder) {
  run_into_fault(make_cuda_debug_device(0));
}

TEST_F(CudaFault, IsToldWithoutAnOp) {
  const Ended ended = run_apart("CudaFaultProcess.DISABLED_InUsualOrder");
  EXPECT_EQ(ended.code, kExpectedError) << ended.output;
  EXPECT_THAT(ended.output,
              ::testing::ContainsRegex("fault: [^[]*illegal memory access.*train.device=cuda_debug"));
}

TEST_F(CudaFault, InDebugOrderNamesItsOp) {
  const Ended ended = run_apart("CudaFaultProcess.DISABLED_InDebugOrder");
  EXPECT_EQ(ended.code, kExpectedError) << ended.output;
  EXPECT_THAT(ended.output, ::testing::ContainsRegex(
                                "error: \\[relu\\] f32\\[1048576\\].*segment 'step'.*illegal memory access"));
}

}  // namespace
}  // namespace trireme::testing
