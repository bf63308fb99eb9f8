// Kernels one by one: each is first checked (a sample of its results against double precision, and bit by bit
// between one thread and many, or between two runs on another device), then timed and compared with what this
// machine can do at most.
#pragma once

#include <string>
#include <vector>

#include "trireme/bench/ceilings.h"
#include "trireme/bench/kernel_case.h"

namespace trireme::bench {

// All cases with this text in their op or shape. Throws Error, with the nearest op, when there are none.
std::vector<KernelCase> kernel_cases(const std::string& filter, const ModelSizes& sizes = kCpuSizes);

struct KernelTime {
  double median_seconds = 0;
  Cost cost;
  double ceiling_seconds = 0;  // the least in which this machine could do it
};

// Runs it for about `budget_seconds`. Throws Error, and times nothing, when a result is wrong.
KernelTime time_kernel(const KernelCase& test, ThreadPool& pool, Ceilings& ceilings, double budget_seconds);
// The same on another device, with operands that follow the format of a model in `format`.
KernelTime time_kernel(const KernelCase& test, Device& device, DType format, Ceilings& ceilings,
                       double budget_seconds);

}  // namespace trireme::bench
