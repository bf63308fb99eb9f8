// Matrix products of f32: C[m n] = A[m k] · B[k n], batched, with either operand transposed, and with an
// epilogue that runs on each tile of C while it is in cache.
//
// The bits of C depend on the operands and on m, n, k and batch alone: not on the number of threads, on
// whether the call is given a pool, on strides or on transposes. Each element is summed over k in ascending
// order, in blocks whose length follows from k; sums that are long for their m and n are cut into a number of
// chunks that follows from the shape, and the chunks are added in ascending order.
//
// A conv or attention kernel that is itself parallel calls gemm without a pool from each of its tasks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trireme/base/dtype.h"
#include "trireme/base/thread_pool.h"

namespace trireme::cpu {

enum class Transpose { kNo, kYes };

// What becomes of the old value of C.
enum class Accumulate { kNo, kYes };  // kYes: C += A · B

// A part of an operand: `count` columns of B, or rows of A, from `first` on, at `k_count` values of k.
struct GemmBlock {
  int64_t batch;
  int64_t k;
  int64_t k_count;
  int64_t first;
  int64_t count;
};

struct GemmOperand {
  const float* data = nullptr;
  int64_t stride = 0;                    // elements between stored rows
  Transpose transpose = Transpose::kNo;  // kYes: A is stored [k m], B is stored [n k]
  int64_t batch_stride = 0;              // elements between batches; 0: one matrix for all of them
  // An operand that is computed instead of read (an image seen as columns, say). When set, data is not
  // used: fill writes element (block.k + i, block.first + j) to out[i·out_stride + j], for A and B alike.
  // It is called from several threads at once.
  void (*fill)(const void* context, const GemmBlock& block, float* out, int64_t out_stride) = nullptr;
  const void* context = nullptr;
};

// Applied to the finished sum in this order: + bias, + residual, gelu. Null members are left out.
// residual and pre are laid out like C, and must not overlap it. Between these the value is rounded to
// `format`, in which C is to be stored.
struct GemmEpilogue {
  const float* bias = nullptr;      // [n]
  const float* residual = nullptr;  // [m n]
  float* pre = nullptr;             // when set, pre takes the value and C takes gelu of it
  DType format = DType::f32;
};

// Which rows of A and C there are, or which values of k: of each `slots` in turn, used[batch·groups + group]
// first ones, at most all. m, or k, is groups · slots. Others are never read. Of rows, C keeps what it has
// there; along k they count as zeros, and the bits are those that zeros would give.
struct GemmUse {
  enum class Along { kNone, kRows, kSum } along = Along::kNone;
  const int32_t* used = nullptr;
  int64_t groups = 0;
  int64_t slots = 0;
};

struct Gemm {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  GemmOperand a;
  GemmOperand b;
  float* c = nullptr;
  int64_t c_stride = 0;  // elements between rows
  int64_t batch = 1;
  int64_t c_batch_stride = 0;
  Accumulate accumulate = Accumulate::kNo;
  GemmEpilogue epilogue;
  GemmUse use = {};  // where it is set, neither operand is computed, and there is no epilogue
};

// Workspace for a call with a pool of `threads` threads, or for one without when it is 1. All but the data
// pointers and contexts must be set as in the call.
size_t gemm_workspace_bytes(const Gemm& gemm, int threads);

// `workspace` is 64-byte aligned.
void gemm(const Gemm& gemm, ThreadPool& pool, std::byte* workspace);
void gemm(const Gemm& gemm, std::byte* workspace);  // on the calling thread

}  // namespace trireme::cpu
