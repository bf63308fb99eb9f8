// `trireme bench kernels`: each kernel is first checked (a sample of its results against double precision,
// and bit by bit between one thread and many), then timed and compared with what this machine can do at most.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/bench_commands.h"
#include "trireme/cli/ceilings.h"
#include "trireme/cli/kernel_case.h"
#include "trireme/cli/machine.h"
#include "trireme/cli/statistics.h"
#include "trireme/cli/write_json.h"

namespace trireme::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string filter;
  int threads = 0;
  double seconds = 0.2;  // of timing, for each kernel
  std::string json;
};

// Of the magnitudes of the terms: many roundings of f32 in sums of thousands, far below any wrong term.
constexpr double kTolerance = 2e-5;
constexpr int kLeastRuns = 5;

// Throws an Error that names the element when a result is wrong.
void check_results(const KernelCase& test, const KernelRun& run) {
  for (const ExpectedElement& element : test.expected(run)) {
    const double found = run.out(element.output)[element.index];
    if (std::abs(found - element.value) <= kTolerance * element.magnitude) continue;
    throw_error("{}: element {} of result {} is {}, but double precision says {}; nothing was timed",
                test.name(), element.index, element.output, found, element.value);
  }
}

void check_thread_counts(const KernelCase& test, KernelRun& run, int threads) {
  std::vector<std::vector<std::byte>> first;
  for (const TensorView& view : run.outputs()) {
    const auto* data = static_cast<const std::byte*>(view.data);
    first.emplace_back(data, data + view.bytes());
  }
  ThreadPool other(threads == 1 ? 2 : 1);
  run.run(other);
  for (size_t i = 0; i < first.size(); ++i) {
    if (std::memcmp(first[i].data(), run.outputs()[i].data, first[i].size()) != 0)
      throw_error("{}: result {} differs between {} and {} threads; nothing was timed", test.name(), i,
                  threads, other.threads());
  }
}

KernelRun make_run(const KernelCase& test, Results results, ThreadPool& pool) {
  KernelRun run(test.op, test.inputs, test.attrs, results);
  if (test.prepare) test.prepare(run, pool);
  return run;
}

// A run to be timed, after its results were found right.
KernelRun make_checked_run(const KernelCase& test, ThreadPool& pool) {
  KernelRun run = make_run(test, Results::kOwnMemory, pool);
  run.run(pool);
  check_results(test, run);
  check_thread_counts(test, run, pool.threads());
  return test.timed == Results::kOwnMemory ? std::move(run) : make_run(test, test.timed, pool);
}

double median_seconds(KernelRun& run, ThreadPool& pool, double budget_seconds) {
  using Clock = std::chrono::steady_clock;
  run.run(pool);  // touches all memory
  std::vector<double> times;
  for (double spent = 0; static_cast<int>(times.size()) < kLeastRuns || spent < budget_seconds;) {
    const Clock::time_point begin = Clock::now();
    run.run(pool);
    times.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
    spent += times.back();
  }
  return median_of(std::move(times));
}

std::vector<KernelCase> selected_cases(const std::string& filter) {
  std::vector<KernelCase> all;
  for (auto* cases : {matmul_kernel_cases, attention_kernel_cases, row_kernel_cases, conv_kernel_cases}) {
    for (KernelCase& test : cases()) all.push_back(std::move(test));
  }
  std::vector<std::string> names;
  for (const KernelCase& test : all) names.push_back(test.op);
  std::erase_if(all, [&](const KernelCase& test) { return test.name().find(filter) == std::string::npos; });
  if (all.empty()) {
    const std::string guess = nearest(filter, names);
    throw_error("no kernel has '{}' in its name or shape{}", filter,
                guess.empty() ? "" : fmt::format("; did you mean '{}'?", guess));
  }
  return all;
}

// Below this share of threads times one thread's speed, somebody else is using the cores.
constexpr double kQuietShare = 0.75;

void print_ceilings(Ceilings& ceilings, int threads, Json& list) {
  ThreadPool one(1);
  const double flops = measure_flops_per_second(one);
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

int run(const Options& options) {
  const std::vector<KernelCase> cases = selected_cases(options.filter);
  const int threads = thread_count(options.threads);
  ThreadPool pool(threads);
  Ceilings ceilings(pool);
  Json list = Json::array();
  print_ceilings(ceilings, threads, list);
  fmt::print("{:<19} {:<37} {:>9} {:>9} {:>8} {:>10}\n", "op", "shape", "ms", "GFLOP/s", "GB/s",
             "of ceiling");
  for (const KernelCase& test : cases) {
    KernelRun timed = make_checked_run(test, pool);
    const Cost cost = timed.cost();
    const double seconds = median_seconds(timed, pool, options.seconds), ceiling = ceilings.seconds(cost);
    fmt::print("{:<19} {:<37} {:>9.3f} {:>9.1f} {:>8.1f} {:>9.0f}%\n", test.op, test.shape, seconds * 1e3,
               cost.flops / seconds / 1e9, cost.bytes / seconds / 1e9, 100 * ceiling / seconds);
    std::fflush(stdout);
    list.push_back({{"benchmark", "kernel"},
                    {"op", test.op},
                    {"shape", test.shape},
                    {"threads", threads},
                    {"median_seconds", seconds},
                    {"flops", cost.flops},
                    {"bytes", cost.bytes},
                    {"flops_per_second", cost.flops / seconds},
                    {"bytes_per_second", cost.bytes / seconds},
                    {"ceiling_seconds", ceiling},
                    {"ceiling_fraction", ceiling / seconds}});
  }
  if (!options.json.empty()) write_json(options.json, list);
  return kOk;
}

}  // namespace

int bench_kernels(std::span<const std::string> arguments) {
  Options options;
  CLI::App app("Checks the main kernels, then times them against this machine's measured ceilings.",
               "trireme bench kernels");
  app.add_option("--filter", options.filter, "only kernels with this text in their op or shape");
  app.add_option("--threads", options.threads, "default: one per core")->check(CLI::Range(0, 4096));
  app.add_option("--seconds", options.seconds, "of timing for each kernel; default 0.2")
      ->check(CLI::Range(0.0, 3600.0));
  app.add_option("--json", options.json, "write the results to this file");
  if (const auto code = parse_arguments(app, {arguments.begin(), arguments.end()})) return *code;
  return run(options);
}

}  // namespace trireme::cli
