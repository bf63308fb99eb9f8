// The innermost loop of all matrix products: one tile of C, at most kTileRows × kTileCols, from packed panels
// of A and B, with the whole tile in registers. Include it after hwy/highway.h; see gemm_pack-inl.h for how
// panels are made.
//
// An element of C is the sum over k of fused multiply-adds from zero, in ascending order, whatever the size
// of its tile and its place in it. Callers may therefore cut a matrix into tiles as they like.
#if defined(TRIREME_KERNELS_CPU_GEMM_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_GEMM_TILE_INL_H_
#undef TRIREME_KERNELS_CPU_GEMM_TILE_INL_H_
#else
#define TRIREME_KERNELS_CPU_GEMM_TILE_INL_H_
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "hwy/highway.h"
#include "trireme/kernels/cpu/multipliers-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using TileTag = hn::ScalableTag<float>;
using TileVector = hn::VFromD<TileTag>;

// The largest tile whose sums, with a row of B and one element of A, fit the registers: 32 on AVX-512
// and Arm, 16 on other x86.
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
inline constexpr size_t kTileRows = 14, kTileVectors = 2;
#elif HWY_ARCH_X86
inline constexpr size_t kTileRows = 6, kTileVectors = 2;
#else
inline constexpr size_t kTileRows = 8, kTileVectors = 3;
#endif
inline constexpr size_t kTileLanes = HWY_LANES(float);
inline constexpr size_t kTileCols = kTileVectors * kTileLanes;
// Floats between two values of k in a panel of A: whole vectors, which packing is easier with.
inline constexpr size_t kPanelStep = (kTileRows + kTileLanes - 1) / kTileLanes * kTileLanes;

HWY_INLINE constexpr int64_t whole_vectors(int64_t floats) {
  constexpr auto lanes = static_cast<int64_t>(kTileLanes);
  return (floats + lanes - 1) / lanes * lanes;
}

// What a tile is made from: a panel of A and one of B, with a_step and b_step floats between two values of k.
// Of those of B, whole vectors are read.
struct TileTerms {
  int64_t k_count;
  const float* a;
  int64_t a_step;
  const float* b;
  int64_t b_step;
  const float* ahead = nullptr;  // when set, k_count cache lines from here on are brought into L2
};

enum class TileSum { kReplace, kAdd };  // what becomes of the old value of C

struct TileOutput {
  float* c;
  int64_t stride;  // floats between rows
  TileSum mode;
};

template <size_t kRows, size_t kVectors, size_t... kIndex>
HWY_INLINE void tile_step(const float* HWY_RESTRICT a, const float* HWY_RESTRICT b,
                          TileVector* HWY_RESTRICT sum, std::index_sequence<kIndex...>) {
  const TileTag d;
  const Multipliers<kRows> a_column(a);
  TileVector b_row[kVectors];
  for (size_t v = 0; v < kVectors; ++v) b_row[v] = hn::LoadU(d, b + v * kTileLanes);
  ((sum[kIndex] =
        hn::MulAdd(a_column.template all<kIndex / kVectors>(), b_row[kIndex % kVectors], sum[kIndex])),
   ...);
}

// Written out, because a loop would become a call of memset, with the tile in memory.
template <size_t... kIndex>
HWY_INLINE void tile_clear(TileVector* HWY_RESTRICT sum, std::index_sequence<kIndex...>) {
  ((sum[kIndex] = hn::Zero(TileTag())), ...);
}

template <size_t kVectors, size_t... kIndex>
HWY_INLINE void tile_store(const TileVector* HWY_RESTRICT sum, const TileOutput& out,
                           std::index_sequence<kIndex...>) {
  const TileTag d;
  // Copies: stores of vectors could change what `out` refers to, for all the compiler knows.
  float* const c = out.c;
  const int64_t stride = out.stride;
  const auto place = [=](size_t i) {
    return c + static_cast<int64_t>(i / kVectors) * stride + (i % kVectors) * kTileLanes;
  };
  if (out.mode == TileSum::kAdd) {
    (hn::StoreU(hn::Add(hn::LoadU(d, place(kIndex)), sum[kIndex]), d, place(kIndex)), ...);
  } else {
    (hn::StoreU(sum[kIndex], d, place(kIndex)), ...);
  }
}

template <size_t kRows, size_t kVectors>
HWY_NOINLINE void tile_product(const TileTerms& terms, const TileOutput& out) {
  using Indices = std::make_index_sequence<kRows * kVectors>;
  TileVector sum[kRows * kVectors];
  tile_clear(sum, Indices());
  // C is rarely in cache, and by the end of the loop it should be.
  for (size_t i = 0; i < kRows; ++i) {
    for (size_t j = 0; j < kVectors * kTileLanes; j += 16) {
      __builtin_prefetch(out.c + static_cast<int64_t>(i) * out.stride + j, 1);
    }
  }
  const float *a = terms.a, *b = terms.b, *ahead = terms.ahead ? terms.ahead : terms.b;
  const int64_t k_count = terms.k_count, a_step = terms.a_step, b_step = terms.b_step;
  for (int64_t k = 0; k < k_count; ++k) {
    tile_step<kRows, kVectors>(a, b, sum, Indices());
    __builtin_prefetch(ahead + k * 16, 0, 2);
    a += a_step;
    b += b_step;
  }
  tile_store<kVectors>(sum, out, Indices());
}

using TileProduct = void (*)(const TileTerms&, const TileOutput&);

template <size_t kVectors, size_t... kRow>
constexpr std::array<TileProduct, sizeof...(kRow)> tile_products(std::index_sequence<kRow...>) {
  return {&tile_product<kRow + 1, kVectors>...};
}

// C[rows cols] (+)= A · B over one block of k.
HWY_INLINE void multiply_tile(size_t rows, size_t cols, const TileTerms& terms, const TileOutput& out) {
  using Rows = std::make_index_sequence<kTileRows>;
  static constexpr std::array<std::array<TileProduct, kTileRows>, kTileVectors> kProducts = {
    tile_products<1>(Rows()),
    tile_products<2>(Rows()),
#if !HWY_ARCH_X86
    tile_products<3>(Rows()),
#endif
  };
  const size_t vectors = (cols + kTileLanes - 1) / kTileLanes;
  const TileProduct product = kProducts[vectors - 1][rows - 1];
  if (cols == vectors * kTileLanes) {
    product(terms, out);
    return;
  }
  // The tile hangs over the right edge of C: go through a whole one.
  HWY_ALIGN float whole[kTileRows * kTileCols];
  product(terms, {whole, kTileCols, TileSum::kReplace});
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < cols; ++j) {
      float& to = out.c[static_cast<int64_t>(i) * out.stride + static_cast<int64_t>(j)];
      to = out.mode == TileSum::kAdd ? to + whole[i * kTileCols + j] : whole[i * kTileCols + j];
    }
  }
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_GEMM_TILE_INL_H_
