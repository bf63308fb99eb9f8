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

// out[k·step + j] = source[k·stride + j] for j < count. What stands at count <= j < step is finite if the
// operand is, and what the kernel makes of it is dropped. `step` is whole vectors.
HWY_INLINE void pack_rows(const float* HWY_RESTRICT source, int64_t stride, int64_t k_count, size_t count,
                          float* HWY_RESTRICT out, size_t step) {
  const TileTag d;
  // Whole vectors may be read while they end before the last element of the block does.
  const int64_t slack = (k_count - 1) * stride + static_cast<int64_t>(count) - static_cast<int64_t>(step);
  const int64_t whole = count == step ? k_count : slack < 0 || stride == 0 ? 0 : slack / stride + 1;
  int64_t k = 0;
  for (; k < whole; ++k) {
    for (size_t j = 0; j < step; j += kTileLanes) hn::StoreU(hn::LoadU(d, source + j), d, out + j);
    source += stride;
    out += step;
  }
  for (; k < k_count; ++k) {
    std::memcpy(out, source, count * sizeof(float));
    for (size_t j = count; j < step; ++j) out[j] = 0;
    source += stride;
    out += step;
  }
}

#if HWY_TARGET != HWY_SCALAR  // which has no vectors of four
// Four floats from each of rows[0], rows[4], rows[8] …, as many as fill a vector.
template <class D>
HWY_INLINE hn::VFromD<D> load_fours(D d, const float* const* rows, int64_t k) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return hn::LoadU(d, rows[0] + k);
  } else {
    const hn::Half<D> half;
    const auto low = load_fours(half, rows, k);
    return hn::Combine(d, load_fours(half, rows + hn::MaxLanes(half), k), low);
  }
}

// Transposes 4 k of as many rows as a vector has lanes, in blocks of 4 × 4.
HWY_INLINE void store_transposed(const float* const* rows, int64_t k, float* out, size_t step) {
  const TileTag d;
  const hn::Repartition<double, TileTag> d2;
  const auto a = load_fours(d, rows, k), b = load_fours(d, rows + 1, k);
  const auto c = load_fours(d, rows + 2, k), e = load_fours(d, rows + 3, k);
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

// out[k·step + j] = source[j·stride + k] for j < count; copies of the last column follow up to `step`, which
// is whole vectors.
HWY_INLINE void pack_columns(const float* HWY_RESTRICT source, int64_t stride, int64_t k_count, size_t count,
                             float* HWY_RESTRICT out, size_t step) {
  for (size_t j = 0; j < step; j += kTileLanes) {
    const float* rows[kTileLanes];
    for (size_t i = 0; i < kTileLanes; ++i)
      rows[i] = source + static_cast<int64_t>(std::min(j + i, count - 1)) * stride;
    int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
    for (; k + 4 <= k_count; k += 4) store_transposed(rows, k, out + k * step + j, step);
#endif
    for (; k < k_count; ++k) {
      for (size_t i = 0; i < kTileLanes; ++i) out[k * step + j + i] = rows[i][k];
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
