// A few elements of all vectors at a time are widened into a panel, where those of one place lie side by
// side; tiles of the result, below the diagonal and on it, then add their outer products.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/gram.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
//
#include <algorithm>
#include <utility>

#include "hwy/highway.h"
#include "trireme/kernels/cpu/gram.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<double>;
using Narrow = hn::Rebind<float, D>;
using V = hn::Vec<D>;

constexpr int64_t kTileRows = 4;
constexpr size_t kTileVectors = 3;  // with kTileRows of them as sums, 16 registers are enough

// Sums are indexed by constants throughout: see sum_products.cc.
template <size_t... kIndex>
HWY_INLINE void add_tile(const double* HWY_RESTRICT panel, int64_t depth, int64_t stride, int64_t row,
                         int64_t column, double* HWY_RESTRICT products, std::index_sequence<kIndex...>) {
  const D d;
  double* const places[] = {products + (row + static_cast<int64_t>(kIndex / kTileVectors)) * stride + column +
                            kIndex % kTileVectors * hn::Lanes(d)...};
  V sum[] = {hn::LoadU(d, places[kIndex])...};
  for (int64_t t = 0; t < depth; ++t, panel += stride) {
    V values[kTileVectors];
    for (size_t v = 0; v < kTileVectors; ++v) values[v] = hn::LoadU(d, panel + column + v * hn::Lanes(d));
    ((sum[kIndex] = hn::MulAdd(hn::Set(d, panel[row + static_cast<int64_t>(kIndex / kTileVectors)]),
                               values[kIndex % kTileVectors], sum[kIndex])),
     ...);
  }
  (hn::StoreU(sum[kIndex], d, places[kIndex]), ...);
}

// Tiles of four rows from `row` on, as far as the diagonal.
void add_row_of_tiles(const double* panel, int64_t depth, int64_t stride, int64_t row, double* products) {
  const auto width = static_cast<int64_t>(kTileVectors * hn::Lanes(D()));
  for (int64_t column = 0; column < row + kTileRows; column += width)
    add_tile(panel, depth, stride, row, column, products,
             std::make_index_sequence<static_cast<size_t>(kTileRows) * kTileVectors>());
}

void add_up_vectors(const FloatVectors& vectors, const double* HWY_RESTRICT times, double* HWY_RESTRICT sum) {
  const D d;
  const Narrow narrow;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  if (vectors.lie == FloatVectors::Lie::kRows) {
    std::fill_n(sum, vectors.length, 0.0);
    for (int64_t i = 0; i < vectors.count; ++i) {
      const float* HWY_RESTRICT row = vectors.data + i * vectors.length;
      const V factor = hn::Set(d, times[i]);
      int64_t t = 0;
      for (; t + lanes <= vectors.length; t += lanes)
        hn::StoreU(hn::MulAdd(factor, hn::PromoteTo(d, hn::LoadU(narrow, row + t)), hn::LoadU(d, sum + t)), d,
                   sum + t);
      for (; t < vectors.length; ++t) sum[t] += times[i] * static_cast<double>(row[t]);
    }
    return;
  }
  for (int64_t t = 0; t < vectors.length; ++t) {
    const float* HWY_RESTRICT row = vectors.data + t * vectors.count;
    V parts = hn::Zero(d);
    int64_t i = 0;
    for (; i + lanes <= vectors.count; i += lanes)
      parts = hn::MulAdd(hn::LoadU(d, times + i), hn::PromoteTo(d, hn::LoadU(narrow, row + i)), parts);
    double total = hn::GetLane(hn::SumOfLanes(d, parts));
    for (; i < vectors.count; ++i) total += times[i] * static_cast<double>(row[i]);
    sum[t] = total;
  }
}

}  // namespace
}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {
namespace {

constexpr int64_t kDepth = 32;      // of a panel: it stays in the second-level cache
constexpr int64_t kRoundedTo = 24;  // a multiple of a tile's extents, with any vectors
constexpr int64_t kRows = 4;        // of a tile

HWY_EXPORT(add_row_of_tiles);
HWY_EXPORT(add_up_vectors);

}  // namespace

int64_t gram_stride(int64_t count) {
  return (count + kRoundedTo - 1) / kRoundedTo * kRoundedTo;
}
int64_t gram_panel_elements(int64_t count) {
  return kDepth * gram_stride(count);
}

void gram(const FloatVectors& vectors, double* panel, double* products, ThreadPool& pool) {
  const int64_t stride = gram_stride(vectors.count);
  std::fill_n(products, stride * stride, 0.0);
  std::fill_n(panel, kDepth * stride, 0.0);
  const bool rows = vectors.lie == FloatVectors::Lie::kRows;
  const int64_t of_vector = rows ? vectors.length : 1, of_place = rows ? 1 : vectors.count;
  for (int64_t first = 0; first < vectors.length; first += kDepth) {
    const int64_t depth = std::min(kDepth, vectors.length - first);
    const float* const from = vectors.data + first * of_place;
    for (int64_t t = 0; t < depth; ++t) {
      for (int64_t i = 0; i < vectors.count; ++i)
        panel[t * stride + i] = static_cast<double>(from[i * of_vector + t * of_place]);
    }
    pool.parallel_for(stride / kRows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t tile = begin; tile < end; ++tile)
        HWY_DYNAMIC_DISPATCH(add_row_of_tiles)(panel, depth, stride, tile * kRows, products);
    });
  }
}

void add_up(const FloatVectors& vectors, const double* times, double* sum) {
  HWY_DYNAMIC_DISPATCH(add_up_vectors)(vectors, times, sum);
}

}  // namespace trireme::cpu
#endif
