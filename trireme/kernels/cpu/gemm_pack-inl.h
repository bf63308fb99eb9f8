// Packing of operands into panels, the form in which the tile kernel reads them: for each k in turn the
// elements of one tile's rows of A, or columns of B. Include it after gemm_tile-inl.h.
#if defined(TRIREME_KERNELS_CPU_GEMM_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_GEMM_PACK_INL_H_
#undef TRIREME_KERNELS_CPU_GEMM_PACK_INL_H_
#else
#define TRIREME_KERNELS_CPU_GEMM_PACK_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "hwy/highway.h"
#include "trireme/kernels/cpu/gemm_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {

// out[k·step + j] = source[k·stride + j] for j < count, and zero for count <= j < step.
HWY_INLINE void pack_rows(const float* HWY_RESTRICT source, int64_t stride, int64_t k_count, size_t count,
                          float* HWY_RESTRICT out, size_t step) {
  const TileTag d;
  if (count == step && count % kTileLanes == 0) {
    for (int64_t k = 0; k < k_count; ++k) {
      for (size_t j = 0; j < count; j += kTileLanes) hn::StoreU(hn::LoadU(d, source + j), d, out + j);
      source += stride;
      out += step;
    }
    return;
  }
  for (int64_t k = 0; k < k_count; ++k) {
    std::memcpy(out, source, count * sizeof(float));
    for (size_t j = count; j < step; ++j) out[j] = 0;
    source += stride;
    out += step;
  }
}

#if HWY_TARGET != HWY_SCALAR  // which has no vectors of four
// Transposes 4 × 4 floats: rows r[0..3] become out[0], out[step], …
template <class D4>
HWY_INLINE void store_transposed(D4 d, const float* r0, const float* r1, const float* r2, const float* r3,
                                 float* out, size_t step) {
  const hn::Repartition<double, D4> d2;
  const auto a = hn::LoadU(d, r0), b = hn::LoadU(d, r1), c = hn::LoadU(d, r2), e = hn::LoadU(d, r3);
  const auto ab0 = hn::BitCast(d2, hn::InterleaveLower(d, a, b)),
             ab1 = hn::BitCast(d2, hn::InterleaveUpper(d, a, b));
  const auto ce0 = hn::BitCast(d2, hn::InterleaveLower(d, c, e)),
             ce1 = hn::BitCast(d2, hn::InterleaveUpper(d, c, e));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, ab0, ce0)), d, out);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, ab0, ce0)), d, out + step);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d2, ab1, ce1)), d, out + 2 * step);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d2, ab1, ce1)), d, out + 3 * step);
}

#endif

// out[k·step + j] = source[j·stride + k] for j < count; up to `step` follow copies of the last column, since
// what the kernel makes of them is dropped. `step` is a multiple of four.
HWY_INLINE void pack_columns(const float* HWY_RESTRICT source, int64_t stride, int64_t k_count, size_t count,
                             float* HWY_RESTRICT out, size_t step) {
  for (size_t j = 0; j < step; j += 4) {
    const float* rows[4];
    for (size_t i = 0; i < 4; ++i)
      rows[i] = source + static_cast<int64_t>(std::min(j + i, count - 1)) * stride;
    int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
    const hn::FixedTag<float, 4> d;
    for (; k + 4 <= k_count; k += 4) {
      store_transposed(d, rows[0] + k, rows[1] + k, rows[2] + k, rows[3] + k, out + k * step + j, step);
    }
#endif
    for (; k < k_count; ++k) {
      for (size_t i = 0; i < 4; ++i) out[k * step + j + i] = rows[i][k];
    }
  }
}

// Rows of A are shared out evenly among panels, so that no tile is much smaller than the others.
struct PanelRows {
  explicit PanelRows(int64_t row_count)
      : rows(row_count),
        panels((row_count + static_cast<int64_t>(kTileRows) - 1) / static_cast<int64_t>(kTileRows)) {}
  int64_t begin(int64_t panel) const { return rows * panel / panels; }
  int64_t count(int64_t panel) const { return begin(panel + 1) - begin(panel); }

  int64_t rows;
  int64_t panels;
};

// The panels of a row-major A[rows k_count], one after the other.
HWY_INLINE void pack_a_panels(const float* a, int64_t stride, int64_t rows, int64_t k_count, float* out) {
  const PanelRows share(rows);
  for (int64_t i = 0; i < share.panels; ++i) {
    pack_columns(a + share.begin(i) * stride, stride, k_count, share.count(i), out + i * k_count * kPanelStep,
                 kPanelStep);
  }
}

// The panels of a row-major B[k_count cols], each kTileCols wide but the last, which is whole vectors.
HWY_INLINE void pack_b_panels(const float* b, int64_t stride, int64_t k_count, int64_t cols, float* out) {
  for (int64_t j = 0; j < cols; j += kTileCols) {
    const size_t count = std::min<size_t>(kTileCols, cols - j);
    pack_rows(b + j, stride, k_count, count, out + j * k_count,
              (count + kTileLanes - 1) / kTileLanes * kTileLanes);
  }
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_GEMM_PACK_INL_H_
