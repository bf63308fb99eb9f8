// A register tile holds some filters × some vectors of neighbouring outputs; each step loads the vectors
// under one tap and multiplies them by one broadcast weight per filter. With 6 × 4 vectors of AVX-512
// that is 10 loads for 24 multiply-adds, so the arithmetic units stay busy even though most loads
// straddle cache lines. NCHW is kept throughout: outputs are stored where they belong.
//
// Rejected: vectors of output channels (needs NHWC in and out, a transpose of every tensor); full im2col
// and GEMM (nine copies of the image, and packing on top).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/correlate.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <utility>

#include "hwy/highway.h"
#include "trireme/kernels/cpu/correlate.h"
#include "trireme/kernels/cpu/multipliers-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// AVX2 and what came before it have 16 registers, AVX-512 and NEON 32.
#if HWY_ARCH_X86 && HWY_TARGET >= HWY_AVX2
constexpr int kTileVectors = 2;
#else
constexpr int kTileVectors = 4;
#endif

// Channels are summed in blocks so that the part of the image under a tile stays in the first-level
// cache while all filters pass over it.
constexpr int64_t kTermsPerBlock = 320;

enum class Start { kZero, kOutput };

struct Tile {
  const float* image = nullptr;
  int64_t plane = 0, channels = 0;
  const int64_t* taps = nullptr;
  int64_t tap_count = 0;
  int64_t position[kTileVectors] = {};  // of each vector, in the image
  const float* packed = nullptr;
  float* out = nullptr;
  int64_t out_stride = 0;
  int64_t last_count = 0;  // outputs in the last vector
  Start start = Start::kZero;
};

V load_some(const float* from, int64_t count) {
  HWY_ALIGN float lanes[PatchLayout::kVector] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i] = from[i];
  return hn::Load(D(), lanes);
}
void store_some(V v, int64_t count, float* to) {
  HWY_ALIGN float lanes[PatchLayout::kVector];
  hn::Store(v, D(), lanes);
  for (int64_t i = 0; i < count; ++i) to[i] = lanes[i];
}

HWY_INLINE V start_of(const Tile& tile, int64_t filter, int64_t vector, bool whole) {
  if (tile.start == Start::kZero) return hn::Zero(D());
  const float* const out = tile.out + filter * tile.out_stride + vector * hn::Lanes(D());
  return whole ? hn::LoadU(D(), out) : load_some(out, tile.last_count);
}
HWY_INLINE void finish(const Tile& tile, int64_t filter, int64_t vector, bool whole, V sum) {
  float* const out = tile.out + filter * tile.out_stride + vector * hn::Lanes(D());
  if (whole)
    hn::StoreU(sum, D(), out);
  else
    store_some(sum, tile.last_count, out);
}

// Sums are indexed by constants throughout: with loops, GCC for Arm stores all of them in every step.
template <size_t kVectors, size_t kFilters, size_t... kIndex>
HWY_INLINE void run_tile(const Tile& tile, std::index_sequence<kIndex...>) {
  const D d;
  const bool whole = tile.last_count == static_cast<int64_t>(hn::Lanes(d));
  V sum[] = {
      start_of(tile, kIndex / kVectors, kIndex % kVectors, kIndex % kVectors + 1 < kVectors || whole)...};
  int64_t position[kVectors];
  for (size_t v = 0; v < kVectors; ++v) position[v] = tile.position[v];
  const float* HWY_RESTRICT weight = tile.packed;
  const float* HWY_RESTRICT plane = tile.image;
  const int64_t* const taps_end = tile.taps + tile.tap_count;
  for (int64_t c = 0; c < tile.channels; ++c, plane += tile.plane) {
    for (const int64_t* tap = tile.taps; tap != taps_end; ++tap, weight += kFilters) {
      const float* HWY_RESTRICT under = plane + *tap;
      const Multipliers<kFilters> weights(weight);
      V pixels[kVectors];
      for (size_t v = 0; v < kVectors; ++v) pixels[v] = hn::LoadU(d, under + position[v]);
      ((sum[kIndex] =
            hn::MulAdd(weights.template all<kIndex / kVectors>(), pixels[kIndex % kVectors], sum[kIndex])),
       ...);
    }
  }
  (finish(tile, kIndex / kVectors, kIndex % kVectors, kIndex % kVectors + 1 < kVectors || whole, sum[kIndex]),
   ...);
}
template <size_t kVectors, size_t kFilters>
void run_tile(const Tile& tile) {
  run_tile<kVectors, kFilters>(tile, std::make_index_sequence<kVectors * kFilters>());
}

using RunTile = void (*)(const Tile&);

template <size_t kVectors>
RunTile tile_of(int64_t filters) {
  static constexpr RunTile kTiles[kFilterBlock] = {run_tile<kVectors, 1>, run_tile<kVectors, 2>,
                                                   run_tile<kVectors, 3>, run_tile<kVectors, 4>,
                                                   run_tile<kVectors, 5>, run_tile<kVectors, 6>};
  return kTiles[filters - 1];
}
RunTile tile_of(int64_t vectors, int64_t filters) {
  switch (vectors) {
    case 1:
      return tile_of<1>(filters);
    case 2:
      return tile_of<2>(filters);
#if !HWY_ARCH_X86 || HWY_TARGET < HWY_AVX2
    case 3:
      return tile_of<3>(filters);
#endif
    default:
      return tile_of<kTileVectors>(filters);
  }
}

void correlate_image(const Correlation& work) {
  const PatchLayout& layout = *work.layout;
  const int64_t lanes = hn::Lanes(D());
  const int64_t outputs = layout.outputs();
  const int64_t vectors = (outputs + lanes - 1) / lanes;
  const bool in_rows = layout.in_rows();
  const int64_t row_vectors = in_rows ? layout.out_columns / lanes : vectors;
  const int64_t row_pitch = in_rows ? layout.row_step * layout.padded_columns() : 0;
  const int64_t channel_blocks =
      std::max<int64_t>(1, (work.channels * work.tap_count + kTermsPerBlock / 2) / kTermsPerBlock);

  Tile tile;
  tile.plane = layout.is_source() ? outputs : layout.plane();
  tile.taps = work.taps;
  tile.tap_count = work.tap_count;
  tile.out_stride = outputs;
  for (int64_t block = 0; block < channel_blocks; ++block) {
    const int64_t first_channel = work.channels * block / channel_blocks;
    tile.channels = work.channels * (block + 1) / channel_blocks - first_channel;
    tile.image = work.image + first_channel * tile.plane;
    tile.start = block == 0 ? Start::kZero : Start::kOutput;
    for (int64_t vector = 0; vector < vectors; vector += kTileVectors) {
      const int64_t count = std::min<int64_t>(kTileVectors, vectors - vector);
      for (int64_t v = 0; v < count; ++v) {
        tile.position[v] = (vector + v) / row_vectors * row_pitch + (vector + v) % row_vectors * lanes;
      }
      tile.last_count = std::min(lanes, outputs - (vector + count - 1) * lanes);
      for (int64_t b = work.first_block; b < work.last_block; ++b) {
        const int64_t filter = filter_block_start(work.filters, b);
        const int64_t filters = filter_block_start(work.filters, b + 1) - filter;
        tile.packed = work.packed + (filter * work.channels + first_channel * filters) * work.tap_count;
        tile.out = work.out + filter * outputs + vector * lanes;
        tile_of(count, filters)(tile);
      }
    }
  }
}

}  // namespace
}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {

HWY_EXPORT(correlate_image);
void correlate(const Correlation& work) {
  HWY_DYNAMIC_DISPATCH(correlate_image)(work);
}

void pack_filter_block(const FilterView& view, int64_t filters, int64_t channels, int64_t taps, int64_t block,
                       float* packed) {
  const int64_t first = filter_block_start(filters, block);
  const int64_t count = filter_block_start(filters, block + 1) - first;
  float* to = packed + first * channels * taps;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t t = 0; t < taps; ++t) {
      const float* from =
          view.weights + first * view.filter_stride + c * view.channel_stride + view.tap_index[t];
      for (int64_t f = 0; f < count; ++f) *to++ = from[f * view.filter_stride];
    }
  }
}

}  // namespace trireme::cpu
#endif
