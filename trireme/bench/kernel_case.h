// The kernels that decide how fast the benchmark models train, at the shapes those models have. They are
// checked by the references of the ops' cases (cases/op_case.h).
#pragma once

#include <string>
#include <vector>

#include "trireme/bench/cases/op_case.h"
#include "trireme/bench/kernel_run.h"

namespace trireme::bench {

// `label` is the shape, for people: "2048x384 · 384x1152".
struct KernelCase : OpCase {
  Results timed = Results::kOwnMemory;

  std::string name() const { return op + " " + label; }
};

// What shapes are made of.
struct ModelSizes {
  int64_t tokens, hidden, vocab;
  int64_t predicted;  // tokens of which the head and the loss are timed
  int64_t images;
  int64_t gradient = 0;  // elements of which the largest are selected; 0: not timed, for want of a kernel
  int64_t padded = 0;    // tokens of the longest of sequences that are not equally long; 0: as above

  int64_t inner() const { return 4 * hidden; }
};
// The small GPT, 8 rows of 256 tokens; GPT-2, with too little to predict for its operands to fill host
// memory.
inline constexpr ModelSizes kCpuSizes{.tokens = 2048,
                                      .hidden = 384,
                                      .vocab = 256,
                                      .predicted = 2048,
                                      .images = 64,
                                      .gradient = int64_t{1} << 24,
                                      .padded = 512};
inline constexpr ModelSizes kGpuSizes{
    .tokens = 16384, .hidden = 768, .vocab = 50304, .predicted = 2048, .images = 1024};

// Causal attention with heads of 64 features, on 256 and on 1024 tokens.
std::vector<KernelCase> attention_kernel_cases(const ModelSizes& sizes);
std::vector<KernelCase> row_kernel_cases(const ModelSizes& sizes);  // norms, activations, losses, updates
// The convolutions of ResNet-20 on images of 32x32: one per stage, and the two that halve the image.
std::vector<KernelCase> conv_kernel_cases(const ModelSizes& sizes);
// All of these, products of a GPT, and what compressors of gradients do before they send.
std::vector<KernelCase> all_kernel_cases(const ModelSizes& sizes);

// Throws an Error that names the result where one differs from the reference. References are slow: of large
// operands, as many rows (channels, heads, …) are compared as take a moment, at the beginning of the
// results and at their end. `format` is that in which the kernel computed.
void check_results(const KernelCase& test, const KernelRun& run, DType format = DType::f32);

}  // namespace trireme::bench
