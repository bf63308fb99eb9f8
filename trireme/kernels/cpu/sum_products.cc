// A register tile holds some filters × some vectors of window values; each output pixel adds the outer
// product of its dy (one broadcast per filter, read from NCHW as it is) and its window (vectors over
// channels). With 8 × 3 vectors that is 11 loads for 24 multiply-adds.
//
// Rejected: vectors over pixels, which need no transposed image, but end in a horizontal sum per
// weight or in sixteen times the partial sums.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/sum_products.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <utility>

#include "hwy/highway.h"
#include "trireme/kernels/cpu/sum_products.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

constexpr int kTileVectors = 3;
// AVX2 and what came before it have 16 registers, AVX-512 and NEON 32.
#if HWY_ARCH_X86 && HWY_TARGET >= HWY_AVX2
constexpr int kTileFilters = 4;
#else
constexpr int kTileFilters = 8;
#endif

struct Tile {
  const float* dy = nullptr;
  float* sums = nullptr;
  int64_t sums_stride = 0;
  int64_t offset[kTileVectors] = {};
};

// Sums are indexed by constants throughout: with loops, GCC for Arm stores all of them in every step.
template <size_t kVectors, size_t... kIndex>
HWY_INLINE void run_tile(const SumProducts& work, const Tile& tile, std::index_sequence<kIndex...>) {
  const D d;
  float* const places[] = {tile.sums + kIndex / kVectors * tile.sums_stride +
                           kIndex % kVectors * hn::Lanes(d)...};
  const bool zero = work.start == SumProducts::Start::kZero;
  V sum[] = {(zero ? hn::Zero(d) : hn::LoadU(d, places[kIndex]))...};
  const int64_t plane = work.out_rows * work.out_columns;
  const int64_t pixel_stride = work.pixel_stride;
  int64_t offset[kVectors];
  for (size_t v = 0; v < kVectors; ++v) offset[v] = tile.offset[v];
  for (int64_t image = 0; image < work.images; ++image) {
    const float* HWY_RESTRICT dy = tile.dy + image * work.dy_image_stride;
    for (int64_t row = 0; row < work.out_rows; ++row) {
      const float* HWY_RESTRICT window = work.pixels + image * work.image_stride + row * work.row_stride;
      for (const float* const row_end = dy + work.out_columns; dy != row_end; ++dy, window += pixel_stride) {
        V values[kVectors];
        for (size_t v = 0; v < kVectors; ++v) values[v] = hn::LoadU(d, window + offset[v]);
        ((sum[kIndex] =
              hn::MulAdd(hn::Set(d, dy[kIndex / kVectors * plane]), values[kIndex % kVectors], sum[kIndex])),
         ...);
      }
    }
  }
  (hn::StoreU(sum[kIndex], d, places[kIndex]), ...);
}
template <size_t kVectors, size_t kFilters>
void run_tile(const SumProducts& work, const Tile& tile) {
  run_tile<kVectors>(work, tile, std::make_index_sequence<kVectors * kFilters>());
}

using RunTile = void (*)(const SumProducts&, const Tile&);

template <size_t kVectors>
RunTile tile_of(int64_t filters) {
#if HWY_ARCH_X86 && HWY_TARGET >= HWY_AVX2
  static constexpr RunTile kTiles[] = {run_tile<kVectors, 1>, run_tile<kVectors, 2>, run_tile<kVectors, 3>,
                                       run_tile<kVectors, 4>};
#else
  static constexpr RunTile kTiles[] = {run_tile<kVectors, 1>, run_tile<kVectors, 2>, run_tile<kVectors, 3>,
                                       run_tile<kVectors, 4>, run_tile<kVectors, 5>, run_tile<kVectors, 6>,
                                       run_tile<kVectors, 7>, run_tile<kVectors, 8>};
#endif
  return kTiles[filters - 1];
}
RunTile tile_of(int64_t vectors, int64_t filters) {
  switch (vectors) {
    case 1:
      return tile_of<1>(filters);
    case 2:
      return tile_of<2>(filters);
    default:
      return tile_of<3>(filters);
  }
}

void sum_all(const SumProducts& work) {
  const int64_t lanes = hn::Lanes(D());
  const int64_t vectors = work.segments * work.segment_floats / lanes;
  const int64_t plane = work.out_rows * work.out_columns;
  const int64_t filters = work.last_filter - work.first_filter;
  const int64_t blocks = (filters + kTileFilters - 1) / kTileFilters;
  Tile tile;
  tile.sums_stride = work.segments * work.segment_floats;
  for (int64_t b = 0; b < blocks; ++b) {
    const int64_t filter = work.first_filter + filters * b / blocks;
    const int64_t count = work.first_filter + filters * (b + 1) / blocks - filter;
    tile.dy = work.dy + filter * plane;
    for (int64_t vector = 0; vector < vectors; vector += kTileVectors) {
      const int64_t width = std::min<int64_t>(kTileVectors, vectors - vector);
      for (int64_t v = 0; v < width; ++v) {
        const int64_t at = (vector + v) * lanes;
        tile.offset[v] = work.segment_offsets[at / work.segment_floats] + at % work.segment_floats;
      }
      tile.sums = work.sums + filter * tile.sums_stride + vector * lanes;
      tile_of(width, count)(work, tile);
    }
  }
}

}  // namespace
}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {

HWY_EXPORT(sum_all);
void sum_products(const SumProducts& work) {
  HWY_DYNAMIC_DISPATCH(sum_all)(work);
}

}  // namespace trireme::cpu
#endif
