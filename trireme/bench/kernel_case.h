// The kernels that decide how fast the benchmark models train, at the shapes those models have, each with
// its own naive check in double precision on a sample of its results.
#pragma once

#include <string>
#include <vector>

#include "trireme/bench/kernel_run.h"

namespace trireme::bench {

// What one element of a result should be. The error of a sum is judged against the sum of the magnitudes of
// its terms, because terms that cancel leave their rounding errors behind.
struct ExpectedElement {
  int output;
  int64_t index;
  double value;
  double magnitude;
};

struct KernelCase {
  std::string op;
  std::string shape;  // for people: "2048x384 · 384x1152"
  std::vector<TensorType> inputs;
  Attrs attrs;
  std::vector<ExpectedElement> (*expected)(const KernelRun& run);
  // Sets inputs that are not just random: labels, statistics of the forward op. Null: nothing to set.
  void (*prepare)(KernelRun& run, ThreadPool& pool) = nullptr;
  Results timed = Results::kOwnMemory;

  std::string name() const { return op + " " + shape; }
};

// What shapes are made of.
struct ModelSizes {
  int64_t tokens, hidden, vocab;
  int64_t predicted;  // tokens of which the head and the loss are timed
  int64_t images;
  int64_t gradient = 0;  // elements of which the largest are selected; 0: not timed, for want of a kernel

  int64_t inner() const { return 4 * hidden; }
};
// The small GPT, 8 rows of 256 tokens; GPT-2, with too little to predict for its operands to fill host
// memory.
inline constexpr ModelSizes kCpuSizes{.tokens = 2048,
                                      .hidden = 384,
                                      .vocab = 256,
                                      .predicted = 2048,
                                      .images = 64,
                                      .gradient = int64_t{1} << 24};
inline constexpr ModelSizes kGpuSizes{
    .tokens = 16384, .hidden = 768, .vocab = 50304, .predicted = 2048, .images = 1024};

std::vector<KernelCase> matmul_kernel_cases(const ModelSizes& sizes);
std::vector<KernelCase> attention_kernel_cases(const ModelSizes& sizes);
std::vector<KernelCase> row_kernel_cases(const ModelSizes& sizes);  // norms, activations, losses, updates
std::vector<KernelCase> conv_kernel_cases(const ModelSizes& sizes);
std::vector<KernelCase> exchange_kernel_cases(const ModelSizes& sizes);

// Pseudo-random indices below `bound`, the same every time.
std::vector<int64_t> sample_indices(int count, int64_t bound);

}  // namespace trireme::bench
