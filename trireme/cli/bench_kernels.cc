// `trireme bench kernels`: kernels checked and timed (bench/kernels.h), as a table and as JSON.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/machine.h"
#include "trireme/bench/ceilings.h"
#include "trireme/bench/kernels.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/write_file.h"
#include "trireme/kernels/kernel.h"

namespace trireme::cli {
namespace {

using Json = nlohmann::ordered_json;

struct KernelsOptions {
  std::string filter;
  int threads = 0;
  double seconds = 0.2;  // of timing, for each kernel
  std::string device = "cpu", precision = "f32";
  std::string json;
};

// Below this share of threads times one thread's speed, somebody else is using the cores.
constexpr double kQuietShare = 0.75;

void print_ceilings(bench::Ceilings& ceilings, int threads, Json& list) {
  ThreadPool one(1);
  const double flops = bench::measure_flops_per_second(one);
  const double bytes = ceilings.memory_bytes_per_second();
  ceilings.measure_again();
  fmt::print("{} ({}), {} threads\n", cpu_model(), simd_target(), threads);
  fmt::print(
      "ceilings, measured now: f32 multiply-add {:.1f} GFLOP/s on 1 thread, {:.1f} on {}; memory {:.1f} "
      "GB/s\n",
      flops / 1e9, ceilings.flops_per_second() / 1e9, threads, bytes / 1e9);
  if (ceilings.flops_per_second() < kQuietShare * threads * flops)
    fmt::print(
        "the threads get in each other's way: other programs run, or cores share units; figures vary\n");
  fmt::print("\n");
  const auto entry = [&](std::string_view name, int count) -> Json& {
    list.push_back({{"benchmark", "ceiling"},
                    {"op", name},
                    {"threads", count},
                    {"cpu", cpu_model()},
                    {"simd", simd_target()}});
    return list.back();
  };
  entry("multiply_add", 1)["flops_per_second"] = flops;
  entry("multiply_add", threads)["flops_per_second"] = ceilings.flops_per_second();
  entry("triad", threads)["bytes_per_second"] = bytes;
}

using TimeKernel = std::function<bench::KernelTime(const bench::KernelCase&)>;

// `common`: what every entry says of where it was measured.
int time_all(const std::vector<bench::KernelCase>& cases, const KernelsOptions& options, const Json& common,
             Json list, const TimeKernel& time) {
  fmt::print("{:<19} {:<37} {:>9} {:>9} {:>8} {:>10}\n", "op", "shape", "ms", "GFLOP/s", "GB/s",
             "of ceiling");
  for (const bench::KernelCase& test : cases) {
    const auto [seconds, cost, ceiling] = time(test);
    fmt::print("{:<19} {:<37} {:>9.3f} {:>9.1f} {:>8.1f} {:>9.0f}%\n", test.op, test.label, seconds * 1e3,
               cost.flops / seconds / 1e9, cost.bytes / seconds / 1e9, 100 * ceiling / seconds);
    std::fflush(stdout);
    list.push_back({{"benchmark", "kernel"},
                    {"op", test.op},
                    {"shape", test.label},
                    {"median_seconds", seconds},
                    {"flops", cost.flops},
                    {"bytes", cost.bytes},
                    {"flops_per_second", cost.flops / seconds},
                    {"bytes_per_second", cost.bytes / seconds},
                    {"ceiling_seconds", ceiling},
                    {"ceiling_fraction", ceiling / seconds}});
    list.back().update(common);
  }
  if (!options.json.empty()) write_json(options.json, list);
  return kOk;
}

int run_on_cpu(const KernelsOptions& options) {
  const std::vector<bench::KernelCase> cases = bench::kernel_cases(options.filter);
  const int threads = thread_count(options.threads);
  ThreadPool pool(threads);
  bench::Ceilings ceilings(pool);
  Json list = Json::array();
  print_ceilings(ceilings, threads, list);
  return time_all(cases, options, {{"threads", threads}}, std::move(list),
                  [&](const bench::KernelCase& test) {
                    return bench::time_kernel(test, pool, ceilings, options.seconds);
                  });
}

int run_on_device(const KernelsOptions& options) {
  const std::vector<bench::KernelCase> cases = bench::kernel_cases(options.filter, bench::kGpuSizes);
  const std::unique_ptr<Device> device = make_device({.kind = options.device});
  const DType format = *parse_dtype(options.precision);
  bench::Ceilings ceilings(*device, format);
  const double bytes = ceilings.memory_bytes_per_second();
  fmt::print("{}, {}\nceilings, measured now: product {:.1f} TFLOP/s, copy {:.1f} GB/s\n\n",
             device->description(), options.precision, ceilings.flops_per_second() / 1e12, bytes / 1e9);
  const Json common = {{"device", device->description()}, {"precision", options.precision}};
  Json list = Json::array();
  list.push_back(
      {{"benchmark", "ceiling"}, {"op", "product"}, {"flops_per_second", ceilings.flops_per_second()}});
  list.push_back({{"benchmark", "ceiling"}, {"op", "copy"}, {"bytes_per_second", bytes}});
  for (Json& one : list) one.update(common);
  return time_all(cases, options, common, std::move(list), [&](const bench::KernelCase& test) {
    return bench::time_kernel(test, *device, format, ceilings, options.seconds);
  });
}

}  // namespace

int bench_kernels(std::span<const std::string> arguments) {
  KernelsOptions options;
  CLI::App app("Checks the main kernels, then times them against this machine's measured ceilings.",
               "trireme bench kernels");
  app.add_option("--filter", options.filter, "only kernels with this text in their op or shape");
  app.add_option("--threads", options.threads, "default: one per core")->check(CLI::Range(0, 4096));
  app.add_option("--seconds", options.seconds, "seconds of timing for each kernel; default 0.2")
      ->check(CLI::Range(0.0, 3600.0));
  app.add_option("--device", options.device, "cpu, or cuda at the sizes of a GPT-2; default cpu")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--precision", options.precision, "number format on a GPU: f32, bf16 or f16; default f32")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  app.add_option("--json", options.json, "write the results to this file");
  if (const auto code = parse_arguments(app, {arguments.begin(), arguments.end()})) return *code;
  if (options.device != "cpu") return run_on_device(options);
  if (options.precision != "f32")
    throw_error("--precision {} is for --device cuda; the CPU's kernels are timed in f32", options.precision);
  return run_on_cpu(options);
}

}  // namespace trireme::cli
