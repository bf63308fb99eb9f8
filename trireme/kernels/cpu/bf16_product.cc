// Packing, sharing out and epilogues of bf16 products; see bf16_product.h.
#include "trireme/kernels/cpu/bf16_product.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/bf16_product.cc"
#include "hwy/foreach_target.h"
// foreach_target.h must come first.
#include <algorithm>
#include <cstring>

#include "hwy/highway.h"
#include "trireme/kernels/cpu/gemm_blocks.h"
#include "trireme/kernels/cpu/round-inl.h"
#include "trireme/kernels/cpu/simd_math-inl.h"
#include "trireme/kernels/cpu/tasks.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {

template <class D>
HWY_INLINE hn::VFromD<D> load_bf16(D d, const Bf16* from) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(d32, hn::LoadU(d16, &from->bits))));
}
// `value` is rounded to bf16.
template <class D>
HWY_INLINE void store_bf16(D, hn::VFromD<D> value, Bf16* to) {
  const hn::Rebind<uint16_t, D> d16;
  const hn::RebindToUnsigned<D> d32;
  hn::StoreU(hn::TruncateTo(d16, hn::ShiftRight<16>(hn::BitCast(d32, value))), d16, &to->bits);
}

// The block of sums at (row, col) of a batch becomes that of C.
void finish_block(const Bf16Product& p, int64_t batch, int64_t row, int64_t col, const float* sums) {
  const int64_t rows = std::min(kBf16Side, p.m - row), cols = std::min(kBf16Side, p.n - col);
  const RoundToBf16 round;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = (batch * p.m + row + r) * p.n + col;
    const auto chunk = [&](auto d, int64_t j) HWY_ATTR {
      auto value = round(d, hn::LoadU(d, sums + r * kBf16Side + j));
      if (p.bias) value = round(d, hn::Add(value, load_bf16(d, p.bias + col + j)));
      if (p.residual) value = round(d, hn::Add(value, load_bf16(d, p.residual + at + j)));
      if (p.pre) {
        store_bf16(d, value, p.pre + at + j);
        value = round(d, Gelu(d, value));
      }
      store_bf16(d, value, p.c + at + j);
    };
    const hn::ScalableTag<float> d;
    const int64_t lanes = hn::Lanes(d);
    int64_t j = 0;
    for (; j + lanes <= cols; j += lanes) chunk(d, j);
    for (; j < cols; ++j) chunk(hn::CappedTag<float, 1>(), j);
  }
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {
namespace {

HWY_EXPORT(finish_block);

constexpr int64_t kTileSide = 16, kTileSize = 512;         // of a tile: rows or columns, elements
constexpr int64_t kPartElements = int64_t{512} << 10;      // of both operands, for what one task computes
constexpr int64_t kFewMultiplications = int64_t{1} << 20;  // not worth waking threads for

int64_t in_blocks(int64_t extent) {
  return (extent + kBf16Side - 1) / kBf16Side;
}
int64_t panel_elements(const Bf16Product& p) {
  return in_blocks(p.k) * kBf16Side * kBf16Side;
}

struct Panels {
  int64_t down, across;      // of one matrix of A, and of B
  int64_t a_count, b_count;  // of all matrices
  explicit Panels(const Bf16Product& p)
      : down(in_blocks(p.m)),
        across(in_blocks(p.n)),
        a_count(down * (p.a.batch_stride == 0 ? 1 : p.batch)),
        b_count(across * (p.b.batch_stride == 0 ? 1 : p.batch)) {}
};

// A tile from [k extent] or [extent k] in memory, with zeros where the operand ends. `pairs`: as B has it.
// Element (k, i) is at from[k·k_step + i·step].
void pack_tile(const Bf16* from, int64_t k_step, int64_t step, int64_t k_count, int64_t count, bool pairs,
               Bf16* out) {
  if (k_count < kBf16Side || count < kTileSide) std::fill_n(out, kTileSize, Bf16(0.0f));
  if (!pairs && k_step == 1) {
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(out + i * kBf16Side, from + i * step, static_cast<size_t>(k_count) * sizeof(Bf16));
    return;
  }
  if (pairs && k_step == 1 && k_count == kBf16Side) {
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t k = 0; k < kBf16Side; k += 2)
        std::memcpy(out + k * kTileSide + 2 * i, from + i * step + k, 2 * sizeof(Bf16));
    }
    return;
  }
  for (int64_t k = 0; k < k_count; ++k) {
    const Bf16* const row = from + k * k_step;
    Bf16* const to = pairs ? out + k / 2 * kBf16Side + k % 2 : out + k;
    const int64_t to_step = pairs ? 2 : kBf16Side;
    for (int64_t i = 0; i < count; ++i) to[i * to_step] = row[i * step];
  }
}

// Rows of A, or columns of B, from `first` on, over all of k.
enum class Side { kA, kB };
void pack_bf16_panel(const Bf16Product& p, Side side, int64_t batch, int64_t first, Bf16* out) {
  const bool of_b = side == Side::kB;
  const Bf16Operand& operand = of_b ? p.b : p.a;
  const int64_t extent = of_b ? p.n : p.m;
  const bool along_k = (operand.transpose == Transpose::kYes) == of_b;  // a run in memory goes along k
  const int64_t k_step = along_k ? 1 : operand.stride, step = along_k ? operand.stride : 1;
  const Bf16* const data = operand.data + batch * operand.batch_stride;
  for (int64_t k = 0; k < p.k; k += kBf16Side) {
    for (int64_t half = 0; half < kBf16Side; half += kTileSide, out += kTileSize) {
      const int64_t begin = first + half, count = std::clamp<int64_t>(extent - begin, 0, kTileSide);
      const Bf16* const from = count > 0 ? data + k * k_step + begin * step : data;
      pack_tile(from, k_step, step, std::min(kBf16Side, p.k - k), count, of_b, out);
    }
  }
}

// Zeros in the place of rows of A, or of values of k, that are not used.
void clear_unused_of_panel(const Bf16Product& p, Side side, int64_t batch, int64_t first, Bf16* out) {
  using enum GemmUse::Along;
  const auto is_unused = [&](GemmUse::Along along, int64_t at) {
    return used_in(p.use, along, batch, at, at + 1) == 0;
  };
  const int64_t size = in_blocks(p.k) * kBf16Side * kBf16Side;
  for (int64_t row = 0; p.use.along == kRows && side == Side::kA && row < std::min(kBf16Side, p.m - first);
       ++row) {
    if (!is_unused(kRows, first + row)) continue;
    Bf16* const at = out + row / kTileSide * kTileSize + row % kTileSide * kBf16Side;
    for (int64_t tile = 0; tile < size; tile += 2 * kTileSize) std::fill_n(at + tile, kBf16Side, Bf16(0.0f));
  }
  for (int64_t k = 0; p.use.along == kSum && k < p.k; ++k) {
    if (!is_unused(kSum, k)) continue;
    const int64_t in_tile = k % kBf16Side;
    Bf16* const at = out + k / kBf16Side * 2 * kTileSize +
                     (side == Side::kB ? in_tile / 2 * kBf16Side + in_tile % 2 : in_tile);
    for (int64_t i = 0; i < kBf16Side; ++i)
      at[i / kTileSide * kTileSize + i % kTileSide * (side == Side::kB ? 2 : kBf16Side)] = Bf16(0.0f);
  }
}

bool has_rows(const Bf16Product& p, int64_t batch, int64_t panel) {
  return used_in(p.use, GemmUse::Along::kRows, batch, panel * kBf16Side,
                 std::min(p.m, (panel + 1) * kBf16Side)) > 0;
}

void clear_block(const Bf16Product& p, int64_t batch, int64_t row, int64_t col) {
  for (int64_t r = row; r < std::min(row + kBf16Side, p.m); ++r)
    std::fill_n(p.c + (batch * p.m + r) * p.n + col, std::min(kBf16Side, p.n - col), Bf16(0.0f));
}

}  // namespace

size_t bf16_product_workspace(const Bf16Product& p) {
  const Panels panels(p);
  return static_cast<size_t>((panels.a_count + panels.b_count) * panel_elements(p)) * sizeof(Bf16);
}

void multiply_bf16(const Bf16Product& p, const Bf16Instructions& instructions, ThreadPool& all,
                   std::byte* workspace) {
  if (p.m == 0 || p.n == 0 || p.batch == 0) return;
  ThreadPool* const pool = p.batch * p.m * p.n * p.k < kFewMultiplications ? nullptr : &all;
  const Panels panels(p);
  const int64_t size = panel_elements(p), steps = in_blocks(p.k);
  Bf16* const packed_a = reinterpret_cast<Bf16*>(workspace);
  Bf16* const packed_b = packed_a + panels.a_count * size;
  for_each_task(pool, panels.a_count + panels.b_count, [&](int64_t task, int) {
    const auto pack = [&](Side side, int64_t batch, int64_t first, Bf16* out) {
      pack_bf16_panel(p, side, batch, first, out);
      clear_unused_of_panel(p, side, batch, first, out);
    };
    if (task < panels.a_count) {
      const int64_t batch = task / panels.down, panel = task % panels.down;
      if (has_rows(p, batch, panel)) pack(Side::kA, batch, panel * kBf16Side, packed_a + task * size);
      return;
    }
    task -= panels.a_count;
    pack(Side::kB, task / panels.across, task % panels.across * kBf16Side, packed_b + task * size);
  });

  // A task takes panels of both operands that stay in L2, and fewer where threads would be idle.
  const int threads = pool ? pool->threads() : 1;
  int64_t tall = std::clamp<int64_t>(kPartElements / 2 / std::max<int64_t>(size, 1), 1, panels.down),
          wide = std::min(tall, panels.across);
  const auto tasks = [&] {
    return p.batch * ((panels.down + tall - 1) / tall) * ((panels.across + wide - 1) / wide);
  };
  while (tasks() < 4 * threads && (tall > 1 || wide > 1))
    (tall > wide ? tall : wide) = (std::max(tall, wide) + 1) / 2;
  const int64_t down = (panels.down + tall - 1) / tall, across = (panels.across + wide - 1) / wide;
  for_each_task(pool, p.batch * down * across, [&](int64_t task, int) {
    alignas(64) float sums[kBf16Side * kBf16Side];
    const int64_t batch = task / (down * across), row = task % down * tall, col = task / down % across * wide;
    const int64_t a_first = p.a.batch_stride == 0 ? 0 : batch * panels.down;
    const int64_t b_first = p.b.batch_stride == 0 ? 0 : batch * panels.across;
    if (instructions.begin) instructions.begin();
    for (int64_t i = row; i < std::min(row + tall, panels.down); ++i) {
      const bool any = has_rows(p, batch, i);
      for (int64_t j = col; j < std::min(col + wide, panels.across); ++j) {
        if (!any) {
          clear_block(p, batch, i * kBf16Side, j * kBf16Side);
          continue;
        }
        instructions.block(packed_a + (a_first + i) * size, packed_b + (b_first + j) * size, steps, sums);
        HWY_DYNAMIC_DISPATCH(finish_block)(p, batch, i * kBf16Side, j * kBf16Side, sums);
      }
    }
    if (instructions.end) instructions.end();
  });
}

}  // namespace trireme::cpu
#endif  // HWY_ONCE
