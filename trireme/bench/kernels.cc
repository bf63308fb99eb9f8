// See kernels.h.
#include "trireme/bench/kernels.h"

#include <cstring>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/statistics.h"
#include "trireme/base/text.h"
#include "trireme/bench/kernel_run.h"

namespace trireme::bench {
namespace {

constexpr int kLeastRuns = 5;

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

KernelRun make_run(const KernelCase& test, Results results) {
  return {test.op, test.inputs, test.attrs, results};
}

// A run to be timed, after its results were found right.
KernelRun make_checked_run(const KernelCase& test, ThreadPool& pool) {
  KernelRun run = make_run(test, Results::kOwnMemory);
  run.run(pool);
  check_results(test, run);
  check_thread_counts(test, run, pool.threads());
  return test.timed == Results::kOwnMemory ? std::move(run) : make_run(test, test.timed);
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
  run.run(pool);  // touches all memory
  std::vector<double> times;
  for (double spent = 0; static_cast<int>(times.size()) < kLeastRuns || spent < budget_seconds;) {
    const Clock::time_point begin = Clock::now();
    run.run(pool);
    times.push_back(seconds_since(begin));
    spent += times.back();
  }
  return median_of(std::move(times));
}

}  // namespace

std::vector<KernelCase> kernel_cases(const std::string& filter, const ModelSizes& sizes) {
  std::vector<KernelCase> all = all_kernel_cases(sizes);
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

KernelTime time_kernel(const KernelCase& test, Device& device, DType format, Ceilings& ceilings,
                       double budget_seconds) {
  KernelRun checked = make_run(test, Results::kOwnMemory);
  check_device(test, device, format, checked);
  KernelRun host = test.timed == Results::kOwnMemory ? std::move(checked) : make_run(test, test.timed);
  DeviceKernelRun timed(host, device, format);
  const Cost cost = timed.cost();
  return {timed.median_seconds(budget_seconds), cost, ceilings.seconds(cost)};
}

}  // namespace trireme::bench
