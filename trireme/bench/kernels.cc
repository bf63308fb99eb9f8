// See kernels.h.
#include "trireme/bench/kernels.h"

#include <chrono>
#include <cmath>
#include <cstring>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/bench/device_kernel_run.h"
#include "trireme/bench/statistics.h"

namespace trireme::bench {
namespace {

// Of the magnitudes of the terms: many roundings of f32 in sums of thousands, far below any wrong term; in 16
// bits, some roundings of what is kept between the parts of an op, and that of the result.
double tolerance(DType format) {
  return format == DType::f32 ? 2e-5 : format == DType::bf16 ? 2e-2 : 3e-3;
}
constexpr int kLeastRuns = 5;

// Throws an Error that names the element when a result is wrong.
void check_results(const KernelCase& test, const KernelRun& run, DType format = DType::f32) {
  for (const ExpectedElement& element : test.expected(run)) {
    const double found = run.out(element.output)[element.index];
    if (std::abs(found - element.value) <= tolerance(format) * element.magnitude) continue;
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

void check_device(const KernelCase& test, Device& device, DType format, KernelRun& host) {
  DeviceKernelRun run(host, device, format);
  run.run();
  run.read_results();
  check_results(test, host, format);
  const std::vector<std::vector<std::byte>> first = run.results();
  run.run();
  if (run.results() != first)
    throw_error("{}: two runs on {} gave other bits; nothing was timed", test.name(), device.description());
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

}  // namespace

std::vector<KernelCase> kernel_cases(const std::string& filter, const ModelSizes& sizes) {
  std::vector<KernelCase> all;
  for (auto* cases : {matmul_kernel_cases, attention_kernel_cases, row_kernel_cases, conv_kernel_cases,
                      exchange_kernel_cases}) {
    for (KernelCase& test : cases(sizes)) all.push_back(std::move(test));
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

KernelTime time_kernel(const KernelCase& test, ThreadPool& pool, Ceilings& ceilings, double budget_seconds) {
  KernelRun timed = make_checked_run(test, pool);
  const Cost cost = timed.cost();
  return {median_seconds(timed, pool, budget_seconds), cost, ceilings.seconds(cost)};
}

KernelTime time_kernel(const KernelCase& test, ThreadPool& pool, Device& device, DType format,
                       Ceilings& ceilings, double budget_seconds) {
  KernelRun checked = make_run(test, Results::kOwnMemory, pool);
  check_device(test, device, format, checked);
  KernelRun host = test.timed == Results::kOwnMemory ? std::move(checked) : make_run(test, test.timed, pool);
  DeviceKernelRun timed(host, device, format);
  const Cost cost = timed.cost();
  return {timed.median_seconds(budget_seconds), cost, ceilings.seconds(cost)};
}

}  // namespace trireme::bench
