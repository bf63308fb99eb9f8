// Packing, tile loops and epilogues of matrix products; see gemm_blocks.h.
#include "trireme/kernels/cpu/gemm_blocks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/gemm_blocks.cc"
#include "hwy/foreach_target.h"
// foreach_target.h must come first.
#include "hwy/highway.h"
#include "trireme/kernels/cpu/gemm_pack-inl.h"
#include "trireme/kernels/cpu/gemm_tile-inl.h"
#include "trireme/kernels/cpu/round-inl.h"
#include "trireme/kernels/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {

TileSize tile_size() {
  return {kTileRows, kTileCols, kPanelStep};
}

// One panel of either operand. `along_k` says that elements of one k lie side by side in memory.
void pack_panel(const GemmOperand& operand, bool along_k, const GemmBlock& block, float* out, size_t step) {
  if (operand.fill) {
    operand.fill(operand.context, block, out, static_cast<int64_t>(step));
    for (size_t j = block.count; j < step; ++j) {
      for (int64_t k = 0; k < block.k_count; ++k) out[k * step + j] = 0;
    }
    return;
  }
  const float* data = operand.data + block.batch * operand.batch_stride;
  if (along_k) {
    pack_rows(data + block.k * operand.stride + block.first, operand.stride, block.k_count, block.count, out,
              step);
  } else {
    pack_columns(data + block.first * operand.stride + block.k, operand.stride, block.k_count, block.count,
                 out, step);
  }
}

// Panels side by side are packed a few k at a time where one k of them lies side by side in memory, so that
// memory is read in long runs.
int64_t k_at_a_time(const GemmOperand& operand, bool along_k, int64_t k_count) {
  return along_k && !operand.fill ? 16 : std::max<int64_t>(k_count, 1);
}

void pack_b(const Gemm& g, const GemmBlock& block, KRange packed, float* out) {
  const bool along_k = g.b.transpose == Transpose::kNo;
  // k_count values from k on become those from `place` on.
  const auto pack = [&](int64_t from, int64_t k_count, int64_t place) {
    const int64_t some = k_at_a_time(g.b, along_k, k_count);
    for (int64_t k = 0; k < k_count; k += some) {
      for (int64_t j = 0; j < block.count; j += kTileCols) {
        const int64_t cols = std::min<int64_t>(kTileCols, block.count - j), step = whole_vectors(cols);
        pack_panel(g.b, along_k, {block.batch, from + k, std::min(some, k_count - k), block.first + j, cols},
                   out + j * (packed.end - packed.begin) + (place + k) * step, step);
      }
    }
  };
  if (g.use.along != GemmUse::Along::kSum) return pack(block.k, block.k_count, block.k - packed.begin);
  const int64_t end = block.k + block.k_count;
  for (int64_t k = block.k; k < end;) {  // one of the blocks that are summed apart at a time
    const int64_t first = packed.begin + (k - packed.begin) / packed.step * packed.step;
    const int64_t next = std::min(end, first + packed.step);
    int64_t place = first - packed.begin + used_in(g.use, GemmUse::Along::kSum, block.batch, first, k);
    for_each_run(g.use, GemmUse::Along::kSum, block.batch, k, next, [&](int64_t from, int64_t count) {
      pack(from, count, place);
      place += count;
    });
    k = next;
  }
}

// Of the values of k in [begin, end), k_count are used.
void pack_a(const Gemm& g, const GemmPart& part, const PanelRows& share, int64_t begin, int64_t end,
            int64_t k_count) {
  const bool along_k = g.a.transpose == Transpose::kYes;
  int64_t place = 0;
  for_each_run(g.use, GemmUse::Along::kSum, part.batch, begin, end, [&](int64_t from, int64_t count) {
    const int64_t some = k_at_a_time(g.a, along_k, count);
    for (int64_t k = 0; k < count; k += some) {
      for (int64_t i = 0; i < share.panels; ++i) {
        pack_panel(
            g.a, along_k,
            {part.batch, from + k, std::min(some, count - k), part.row + share.begin(i), share.count(i)},
            part.packed_a + (i * k_count + place + k) * kPanelStep, kPanelStep);
      }
    }
    place += count;
  });
}

// c = sum, or c + sum, and the epilogue. `at` is the place of c[0] in arrays like C. `sum` may be `c`.
template <class Round>
HWY_INLINE void finish_row_rounded(const Round& round, const GemmEpilogue e, int64_t col, int64_t at,
                                   int64_t count, const float* sum, TileSum mode, float* c) {
  const auto chunk = [&](auto d, int64_t j) HWY_ATTR {
    auto value = hn::LoadU(d, sum + j);
    if (mode == TileSum::kAdd) value = hn::Add(hn::LoadU(d, c + j), value);
    if (e.bias) value = hn::Add(round(d, value), hn::LoadU(d, e.bias + col + j));
    if (e.residual) value = hn::Add(round(d, value), hn::LoadU(d, e.residual + at + j));
    if (e.pre) {
      value = round(d, value);
      hn::StoreU(value, d, e.pre + at + j);
      value = Gelu(d, value);
    }
    hn::StoreU(value, d, c + j);
  };
  const TileTag d;
  int64_t j = 0;
  for (; j + static_cast<int64_t>(kTileLanes) <= count; j += kTileLanes) chunk(d, j);
  for (; j < count; ++j) chunk(hn::CappedTag<float, 1>(), j);
}
// Of rows with so many floats between them: of C and what is laid out like it, and of the sums.
struct RowSteps {
  int64_t like_c, sum, c;
};
void finish_rows(const GemmEpilogue& e, int64_t rows, const RowSteps& steps, int64_t col, int64_t at,
                 int64_t count, const float* sum, TileSum mode, float* c) {
  with_rounding(e.format, [&](const auto& round) HWY_ATTR {
    for (int64_t r = 0; r < rows; ++r)
      finish_row_rounded(round, e, col, at + r * steps.like_c, count, sum + r * steps.sum, mode,
                         c + r * steps.c);
  });
}

struct BPanel {
  const float* data;
  int64_t step;
};

// The panel of B at column j of the part: packed, where it lies, or at the right edge copied to `edge`.
BPanel b_panel(const Gemm& g, const GemmPart& part, int64_t k, int64_t k_count, int64_t j, int64_t cols,
               float* edge) {
  const int64_t step = whole_vectors(cols);
  if (part.packed_b) {
    return {part.packed_b + j * (part.k.end - part.k.begin) + (k - part.k.begin) * step, step};
  }
  if (cols == step) {
    return {g.b.data + part.batch * g.b.batch_stride + k * g.b.stride + part.col + j, g.b.stride};
  }
  pack_panel(g.b, true, {part.batch, k, k_count, part.col + j, cols}, edge, step);
  return {edge, step};
}

void compute_part(const Gemm& g, const GemmPart& part) {
  const int64_t k_total = part.k.end - part.k.begin;
  const PanelRows share(part.rows);
  const GemmEpilogue& e = g.epilogue;
  const bool apply = part.epilogue == GemmPart::Epilogue::kApply && (e.bias || e.residual || e.pre);
  HWY_ALIGN float tile[kTileRows * kTileCols];
  for (int64_t k = part.k.begin; k < part.k.end; k += part.k.step) {
    const int64_t k_end = std::min(k + part.k.step, part.k.end);
    const int64_t k_count = used_in(g.use, GemmUse::Along::kSum, part.batch, k, k_end);
    const bool last = k_end == part.k.end;
    const TileSum mode =
        k > part.k.begin || part.accumulate == Accumulate::kYes ? TileSum::kAdd : TileSum::kReplace;
    if (k_count == 0 && mode == TileSum::kAdd) continue;  // of none, zeros are stored first
    pack_a(g, part, share, k, k_end, k_count);
    for (int64_t j = 0; j < part.cols; j += kTileCols) {
      const int64_t cols = std::min<int64_t>(kTileCols, part.cols - j);
      const auto [b, b_step] =
          b_panel(g, part, k, k_count, j, cols, part.packed_a + share.panels * k_count * kPanelStep);
      for (int64_t i = 0; i < share.panels; ++i) {
        const int64_t row = share.begin(i), rows = share.count(i);
        float* c = part.c + row * part.c_stride + j;
        // The first tiles fetch the next panel of B, which is a few lines a k.
        constexpr int64_t kLines = (kTileCols + 15) / 16;
        const float* ahead = part.packed_b && i < kLines && j + static_cast<int64_t>(kTileCols) < part.cols
                                 ? b + k_total * kTileCols + i * k_count * 16
                                 : nullptr;
        const TileTerms terms{k_count, part.packed_a + i * k_count * kPanelStep, kPanelStep, b, b_step,
                              ahead};
        if (!apply || !last) {
          multiply_tile(rows, cols, terms, {c, part.c_stride, mode});
          continue;
        }
        // Through a tile in L1, so that C, which is not in cache, is touched once.
        multiply_tile(rows, whole_vectors(cols), terms, {tile, kTileCols, TileSum::kReplace});
        const int64_t at = part.batch * g.c_batch_stride + (part.row + row) * g.c_stride + part.col + j;
        finish_rows(e, rows, {g.c_stride, kTileCols, part.c_stride}, part.col + j, at, cols, tile, mode, c);
      }
    }
  }
}

void combine_chunks(const Gemm& g, int64_t batch, int64_t row, const float* partial, int64_t chunks,
                    int64_t chunk_stride) {
  const int64_t at = batch * g.c_batch_stride + row * g.c_stride;
  float* sum = g.c + at;
  for (int64_t j = 0; j < g.n; ++j) {
    float value = g.accumulate == Accumulate::kYes ? sum[j] : 0.0f;
    for (int64_t s = 0; s < chunks; ++s) value += partial[s * chunk_stride + j];
    sum[j] = value;
  }
  finish_rows(g.epilogue, 1, {}, 0, at, g.n, sum, TileSum::kReplace, sum);
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {

HWY_EXPORT(tile_size);
HWY_EXPORT(pack_b);
HWY_EXPORT(compute_part);
HWY_EXPORT(combine_chunks);

TileSize tile_size() {
  return HWY_DYNAMIC_DISPATCH(tile_size)();
}

void pack_b(const Gemm& gemm, const GemmBlock& block, KRange packed, float* out) {
  HWY_DYNAMIC_DISPATCH(pack_b)(gemm, block, packed, out);
}

int64_t packed_a_floats(int64_t rows, int64_t k_step) {
  const TileSize tile = tile_size();
  return (rows + tile.rows - 1) / tile.rows * tile.panel_step * k_step;
}

void compute_part(const Gemm& gemm, const GemmPart& part) {
  HWY_DYNAMIC_DISPATCH(compute_part)(gemm, part);
}

void combine_chunks(const Gemm& gemm, int64_t batch, int64_t row, const float* partial, int64_t chunks,
                    int64_t chunk_stride) {
  HWY_DYNAMIC_DISPATCH(combine_chunks)(gemm, batch, row, partial, chunks, chunk_stride);
}

}  // namespace trireme::cpu
#endif  // HWY_ONCE
