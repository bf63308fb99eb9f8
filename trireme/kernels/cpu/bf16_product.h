// Matrix products of bf16 with sums in f32, for CPUs that multiply bf16 themselves (AMX, AVX-512 BF16). Both
// operands are packed once, by all threads, into panels of the form that the instructions read, and the
// result is computed in blocks of 32 × 32, each over the whole of k.
//
// The bits of the result depend on the operands and the kind of instructions alone: an element is summed over
// k in ascending order, whatever the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trireme/base/dtype.h"
#include "trireme/base/thread_pool.h"
#include "trireme/kernels/cpu/gemm.h"

namespace trireme::cpu {

inline constexpr int64_t kBf16Side = 32;  // rows and columns of a block, and the k of one step

// How blocks are computed. Panels hold, for each 32 k in turn, two tiles of 1 KiB: of A 16 rows of 32 k each;
// of B 16 pairs of k, each with the 16 columns side by side.
struct Bf16Instructions {
  // c[32 32] = A · B over `steps` times 32 k.
  void (*block)(const Bf16* a, const Bf16* b, int64_t steps, float* c);
  // Around the blocks that a thread computes; null: nothing to do.
  void (*begin)() = nullptr;
  void (*end)() = nullptr;
};
const Bf16Instructions* bf16_instructions();        // of this CPU; null: it has none
const Bf16Instructions& plain_bf16_instructions();  // loops that any CPU can run, for tests

struct Bf16Operand {
  const Bf16* data = nullptr;
  int64_t stride = 0;                    // elements between stored rows
  Transpose transpose = Transpose::kNo;  // kYes: A is stored [k m], B is stored [n k]
  int64_t batch_stride = 0;              // elements between batches; 0: one matrix for all of them
};

// C[m n] = A[m k] · B[k n], then + bias, + residual and gelu as in gemm.h, rounded to bf16 after each. C,
// residual and pre lie row after row, batch after batch.
struct Bf16Product {
  int64_t m = 0, n = 0, k = 0, batch = 1;
  Bf16Operand a, b;
  Bf16* c = nullptr;
  const Bf16 *bias = nullptr, *residual = nullptr;
  Bf16* pre = nullptr;
  // Rows that are not used become zeros in C. Where it is set there is no epilogue.
  GemmUse use = {};
};

size_t bf16_product_workspace(const Bf16Product& product);
// `workspace` is 64-byte aligned.
void multiply_bf16(const Bf16Product& product, const Bf16Instructions& instructions, ThreadPool& pool,
                   std::byte* workspace);

}  // namespace trireme::cpu
