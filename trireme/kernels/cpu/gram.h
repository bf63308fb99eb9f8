// Inner products of the vectors that a matrix has as rows or columns, and sums of them. In double precision:
// an inner product of f32 vectors that are nearly dependent has nothing left in f32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "trireme/base/thread_pool.h"

namespace trireme::cpu {

struct FloatVectors {
  const float* data = nullptr;
  int64_t count = 0, length = 0;
  enum class Lie { kRows, kColumns } lie = Lie::kRows;  // in row-major memory
};

// Elements between rows of a matrix of products, and its rows in memory: `count` and a little more.
int64_t gram_stride(int64_t count);
// Of the panel that gram() works in.
int64_t gram_panel_elements(int64_t count);

// products[i][j] of vectors i and j for all j ≤ i; what stands elsewhere in it is undefined. Each is summed
// in the order of the elements, whatever the number of threads.
void gram(const FloatVectors& vectors, double* panel, double* products, ThreadPool& pool);

// sum[t] = Σ times[i] · vector i [t], in the order of the vectors, or in one that follows from their number.
void add_up(const FloatVectors& vectors, const double* times, double* sum);

}  // namespace trireme::cpu
