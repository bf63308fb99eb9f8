// `trireme doctor`: what this machine has for training, and the command that brings what is missing. Only
// what training cannot do without makes it fail; the rest is for speed, building and comparing.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/machine.h"
#include "trireme/base/text.h"
#include "trireme/bench/ceilings.h"
#include "trireme/bench/device_ceilings.h"
#include "trireme/bench/step_setup.h"
#include "trireme/cli/arguments.h"
#include "trireme/kernels/kernel.h"
#include "trireme/train/trainer.h"

namespace trireme::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLittleMemory = size_t{1} << 30;
constexpr uintmax_t kLittleDisk = uintmax_t{1} << 30;
constexpr uintmax_t kNoDisk = uintmax_t{16} << 20;

enum class Verdict { kOk, kAdvice, kMissing, kBroken };  // kBroken: training cannot run

struct Finding {
  Verdict verdict;
  std::string subject;
  std::string found;
  std::string remedy = "";  // a command, or what to do; printed unless all is well
};

std::string_view word(Verdict verdict) {
  constexpr std::string_view kWords[] = {"ok", "advice", "missing", "BROKEN"};
  return kWords[static_cast<int>(verdict)];
}

// The first line that a command prints; "" when it fails. Commands are constants of this file, except for
// an interpreter that the user names.
std::string first_line_of(const std::string& command) {
  std::FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (!pipe) return "";
  std::array<char, 256> buffer{};
  std::string text;
  while (std::fgets(buffer.data(), buffer.size(), pipe)) text += buffer.data();
  if (pclose(pipe) != 0) return "";
  return text.substr(0, text.find('\n'));
}

Finding check_cpu() {
  return {Verdict::kOk, "CPU", fmt::format("{}, {} cores for this process", cpu_model(), core_count())};
}

Finding check_simd() {
  const std::string target = simd_target();
  const bool slow = target == "EMU128" || target == "SCALAR" || target == "scalar";
  return {slow ? Verdict::kAdvice : Verdict::kOk, "SIMD", target + " chosen by Highway",
          "no vector instructions found: training works, but slowly"};
}

// What MFU is a share of.
Finding check_arithmetic() {
  ThreadPool pool(core_count());
  return {Verdict::kOk, "arithmetic",
          fmt::format("{:.1f} GFLOP/s of f32 multiply-adds at most on {} threads, measured now",
                      bench::measure_flops_per_second(pool) / 1e9, pool.threads())};
}

Finding check_memory() {
  const size_t available = available_memory_bytes();
  return {available < kLittleMemory ? Verdict::kAdvice : Verdict::kOk, "memory",
          fmt::format("{}, {} of it free", format_bytes(total_memory_bytes()), format_bytes(available)),
          "close other programs, or train with a smaller train.batch or a higher train.accumulate"};
}

Finding check_huge_pages() {
  const std::string setting = huge_page_setting();
  const bool usable = setting == "always" || setting == "madvise";
  return {usable ? Verdict::kOk : Verdict::kAdvice, "huge pages", setting.empty() ? "not offered" : setting,
          "faster with: echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"};
}

Finding check_disk() {
  std::error_code error;
  const fs::space_info space = fs::space(fs::current_path(), error);
  if (error || access(".", W_OK) != 0)
    return {Verdict::kBroken, "disk", error ? error.message() : "this folder cannot be written to",
            "change to a folder that can be"};
  const Verdict verdict = space.available < kNoDisk       ? Verdict::kBroken
                          : space.available < kLittleDisk ? Verdict::kAdvice
                                                          : Verdict::kOk;
  return {verdict, "disk", fmt::format("{} free here", format_bytes(space.available)),
          "checkpoints need room: free some, or set run.dir to another disk"};
}

// The proof: one step of a small model.
Finding check_training() {
  try {
    bench::StepSource source;
    source.settings = {"model.layers=1", "model.heads=2", "model.hidden=32", "model.seq=16", "train.batch=2"};
    const bench::StepSetup setup = bench::set_up_step(source);
    const std::unique_ptr<Device> device =
        make_device({.kind = setup.config.train.device, .threads = core_count()});
    Trainer trainer(setup.config.model, setup.config.train, setup.config.optim, setup.shape, *device);
    trainer.initialise(1);
    Batch batch = bench::random_batch(setup, 1);
    const double first = trainer.step(batch, 0, 1e-3).loss, second = trainer.step(batch, 1, 1e-3).loss;
    if (std::isfinite(second) && second < first)
      return {Verdict::kOk, "training",
              fmt::format("two steps of a small model: loss {:.3f}, {:.3f}", first, second)};
    return {Verdict::kBroken, "training", fmt::format("the loss went from {} to {}", first, second),
            "this build computes wrongly here: run the tests (ctest --preset release) and report what fails"};
  } catch (const Error& error) {
    return {Verdict::kBroken, "training", error.what(), "see the message"};
  }
}

// A GPU is used where train.device=cuda asks for it, so that a machine without one lacks nothing.
Finding check_gpu() {
  if (cuda_device_count() == 0)
    return {Verdict::kMissing, "GPU", "none that this build can use",
            "only for train.device=cuda: an NVIDIA driver, and a build with the CUDA toolkit"};
  try {
    const std::unique_ptr<Device> device = make_device({.kind = "cuda"});
    return {Verdict::kOk, "GPU",
            fmt::format("{}{}: bf16 product {:.0f} TFLOP/s, copy {:.2f} TB/s", device->description(),
                        cuda_device_count() > 1 ? fmt::format(", the first of {}", cuda_device_count()) : "",
                        bench::measure_product_flops_per_second(*device, DType::bf16) / 1e12,
                        bench::measure_copy_bytes_per_second(*device) / 1e12)};
  } catch (const Error& error) {
    return {Verdict::kAdvice, "GPU", error.what(), "train.device=cpu computes without it"};
  }
}

Finding check_tool(std::string subject, const std::string& command, std::string remedy) {
  const std::string found = first_line_of(command);
  return {found.empty() ? Verdict::kMissing : Verdict::kOk, std::move(subject),
          found.empty() ? "none" : found, std::move(remedy)};
}

Finding check_torch() {
  // The same interpreters, in the same order, as bench/compare_torch.py.
  for (const char* python : {"\"$TRIREME_PEER_PYTHON\"", "python3", "/usr/bin/python3"}) {
    const std::string version = first_line_of(
        std::string(python) + " -c 'import torch, sys; print(torch.__version__, \"in\", sys.executable)'");
    if (!version.empty()) return {Verdict::kOk, "PyTorch", version};
  }
  return {Verdict::kMissing, "PyTorch", "none",
          "only for bench/compare_torch.py: sudo apt install python3-torch"};
}

}  // namespace

int doctor(std::span<const std::string> arguments) {
  CLI::App app("Says what this machine has, and what to install. Exit code 0: training can run.",
               "trireme doctor");
  if (const auto code = parse_arguments(app, {arguments.begin(), arguments.end()})) return *code;

  bool works = true;
  const auto report = [&](const Finding& finding) {
    fmt::print("{:<8} {:<11} {}\n", word(finding.verdict), finding.subject, finding.found);
    if (finding.verdict != Verdict::kOk) fmt::print("{:<20} {}\n", "", finding.remedy);
    works = works && finding.verdict != Verdict::kBroken;
    std::fflush(stdout);
  };
  report(check_cpu());
  report(check_simd());
  report(check_arithmetic());
  report(check_memory());
  report(check_huge_pages());
  report(check_disk());
  report(check_training());
  report(check_gpu());
  report(check_tool("compiler", "c++ --version", "only for building: sudo apt install g++"));
  report(check_tool("CMake", "cmake --version", "only for building: sudo apt install cmake"));
  report(check_tool("Ninja", "ninja --version", "only for building: sudo apt install ninja-build"));
  report(check_torch());
  fmt::print("\n{}\n",
             works ? "Training can run here: trireme train" : "Training cannot run here; see BROKEN above.");
  return works ? kOk : kFailed;
}

}  // namespace trireme::cli
