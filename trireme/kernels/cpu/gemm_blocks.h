// The parts of a matrix product that run on one thread, built for each instruction set. gemm.cc cuts a
// product into these parts; nobody else should need them.
#pragma once

#include <algorithm>

#include "trireme/kernels/cpu/gemm.h"

namespace trireme::cpu {

// Sizes that follow from the instruction set of this machine.
struct TileSize {
  int64_t rows;  // of a tile of C
  int64_t cols;
  int64_t panel_step;  // floats that a panel of A takes per k
};
TileSize tile_size();

// A range of k, and how it is cut into blocks: all of `step` but the last.
struct KRange {
  int64_t begin;
  int64_t end;
  int64_t step;
};

// each(from, count) for the runs of [begin, end) that are used, ascending; the whole where `use` is of
// another kind.
template <typename Each>
void for_each_run(const GemmUse& use, GemmUse::Along along, int64_t batch, int64_t begin, int64_t end,
                  const Each& each) {
  if (use.along != along) {
    if (begin < end) each(begin, end - begin);
    return;
  }
  int64_t from = begin, count = 0;  // of the run so far: it goes on where a group is full
  while (begin < end) {
    const int64_t group = begin / use.slots, first = group * use.slots;
    const int64_t used = std::min<int64_t>(use.slots, use.used[batch * use.groups + group]);
    const int64_t last = std::min(end, first + used);
    if (begin < last && begin != from + count) {
      if (count > 0) each(from, count);
      from = begin;
      count = 0;
    }
    if (begin < last) count += last - begin;
    begin = first + use.slots;
  }
  if (count > 0) each(from, count);
}
// How many of [begin, end) are used.
inline int64_t used_in(const GemmUse& use, GemmUse::Along along, int64_t batch, int64_t begin, int64_t end) {
  int64_t total = 0;
  for_each_run(use, along, batch, begin, end, [&](int64_t, int64_t count) { total += count; });
  return total;
}

// Packs a block of B into panels that hold all of the range `packed`, of which the block may be a part.
// Panels follow each other: `out` is that of the tile that begins at block.first, and a whole one takes
// (packed.end − packed.begin)·cols floats. Of each of its blocks of k, those that are used stand first.
void pack_b(const Gemm& gemm, const GemmBlock& block, KRange packed, float* out);

// One rectangle of C over one range of k.
struct GemmPart {
  int64_t batch = 0;
  KRange k;
  int64_t row = 0, rows = 0;
  int64_t col = 0, cols = 0;        // `col` begins a tile
  const float* packed_b = nullptr;  // from pack_b with first = col; null: B is read where it lies
  float* packed_a = nullptr;  // room for packed_a_floats(rows, k.step), and without packed_b for a panel of B
  float* c = nullptr;         // element (row, col) of the result
  int64_t c_stride = 0;
  Accumulate accumulate = Accumulate::kNo;
  enum class Epilogue { kNone, kApply } epilogue = Epilogue::kNone;  // kApply: this part finishes the sum
};
int64_t packed_a_floats(int64_t rows, int64_t k_step);
void compute_part(const Gemm& gemm, const GemmPart& part);

// C row `row` of batch `batch` = the sum of `chunks` rows that lie chunk_stride apart, in ascending order,
// and the epilogue.
void combine_chunks(const Gemm& gemm, int64_t batch, int64_t row, const float* partial, int64_t chunks,
                    int64_t chunk_stride);

}  // namespace trireme::cpu
