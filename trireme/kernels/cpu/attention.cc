// attention: softmax(scale · q kᵀ) v without ever holding the scores of more than one block of queries and
// keys. Scores are computed transposed, keys down and queries across: then the softmax of a query is a loop
// over vectors without any sum across lanes, and the block is already in the form in which the tile kernel
// takes its left operand for the product with v.
#include "trireme/kernels/cpu/attention.h"

#include <algorithm>
#include <cmath>

#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/tasks.h"
#include "trireme/kernels/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/attention.cc"
#include "hwy/foreach_target.h"
// foreach_target.h must come first.
#include "hwy/highway.h"
#include "trireme/kernels/cpu/gemm_pack-inl.h"
#include "trireme/kernels/cpu/gemm_tile-inl.h"
#include "trireme/kernels/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {

constexpr int64_t kQueryBlock = kTileCols * (kTileCols < 64 ? 64 / kTileCols : 1);
constexpr int64_t kKeyBlock = 128;

// The temporary memory of one thread, in floats.
struct ForwardMemory {
  explicit ForwardMemory(const AttentionShape& s) {
    const int64_t padded = whole_vectors(s.width);
    const Blocks blocks(s.keys, kKeyBlock);
    const int64_t block_panels = PanelRows(std::min(kKeyBlock, s.keys)).panels;
    k_block = block_panels * kPanelStep * s.width;
    v = round(blocks.count * k_block);
    q = v + round(s.keys * padded);
    scores = q + round(kQueryBlock * s.width);
    o = scores + round(kKeyBlock * kQueryBlock);
    rows = o + round(kQueryBlock * padded);
    total = rows + 4 * kQueryBlock;
  }
  static int64_t round(int64_t floats) { return (floats + 15) / 16 * 16; }

  int64_t k_block;  // between packed blocks of keys; the first is at 0
  int64_t v, q, scores, o, rows, total;
};

// Softmax of one block of scores in place, for the queries of one vector: keys down, `stride` apart. Takes
// and leaves the running maximum and sum; returns the factor by which older results shrink. all: keys that
// every query of the vector sees; some: keys that any sees; count: of the block.
template <class V>
HWY_INLINE V online_softmax(float* HWY_RESTRICT scores, int64_t stride, int64_t all, int64_t some,
                            int64_t count, V visible, float scale_by, V& maximum, V& sum) {
  const TileTag d;
  const V scale = hn::Set(d, scale_by);
  const V lowest = hn::Set(d, -HUGE_VALF);
  V top = lowest;
  for (int64_t key = 0; key < all; ++key) top = hn::Max(top, hn::LoadU(d, scores + key * stride));
  for (int64_t key = all; key < some; ++key) {
    const auto seen = hn::Lt(hn::Set(d, static_cast<float>(key)), visible);
    top = hn::Max(top, hn::IfThenElse(seen, hn::LoadU(d, scores + key * stride), lowest));
  }
  const V old = maximum;
  maximum = hn::Max(old, hn::Mul(top, scale));
  // A query that has seen no key yet: any finite number will do.
  const V base = hn::IfThenElse(hn::Eq(maximum, lowest), hn::Zero(d), maximum);
  const V shrink = Exp(d, hn::Sub(old, base));
  sum = hn::Mul(sum, shrink);
  for (int64_t key = 0; key < all; ++key) {
    const V p = Exp(d, hn::MulSub(hn::LoadU(d, scores + key * stride), scale, base));
    sum = hn::Add(sum, p);
    hn::StoreU(p, d, scores + key * stride);
  }
  for (int64_t key = all; key < some; ++key) {
    const auto seen = hn::Lt(hn::Set(d, static_cast<float>(key)), visible);
    const V p =
        hn::IfThenElseZero(seen, Exp(d, hn::MulSub(hn::LoadU(d, scores + key * stride), scale, base)));
    sum = hn::Add(sum, p);
    hn::StoreU(p, d, scores + key * stride);
  }
  for (int64_t key = some; key < count; ++key) hn::StoreU(hn::Zero(d), d, scores + key * stride);
  return shrink;
}

// One block of queries of one head. `memory` holds the packed keys and values of its group.
struct QueryBlock {
  const AttentionShape& s;
  const ForwardMemory& at;
  float* memory;
  int64_t first, count;  // queries

  int64_t padded() const { return whole_vectors(s.width); }
  float* scores() const { return memory + at.scores; }
  float* o() const { return memory + at.o; }
  // One float a query each: the running maximum and sum, the factor by which older results shrink, and how
  // many keys it sees. The last is exact: positions stay far below 2^24.
  float* maximum() const { return memory + at.rows; }
  float* sum() const { return maximum() + kQueryBlock; }
  float* shrink() const { return sum() + kQueryBlock; }
  float* seen() const { return shrink() + kQueryBlock; }

  // The number of keys from `key` on that a query sees; those past the end see what the last one does.
  int64_t sees(int64_t query, int64_t key) const {
    return std::max<int64_t>(s.visible(first + std::min(query, count - 1)) - key, 0);
  }

  void start(const float* q) const {
    std::fill_n(maximum(), kQueryBlock, -HUGE_VALF);
    std::fill_n(sum(), kQueryBlock, 0.0f);
    std::fill_n(o(), kQueryBlock * padded(), 0.0f);
    for (int64_t i = 0; i < kQueryBlock; ++i) seen()[i] = static_cast<float>(sees(i, 0));
    for (int64_t j = 0; j < count; j += kTileCols) {
      pack_columns(q + j * s.q_stride(), s.q_stride(), s.width, std::min<int64_t>(kTileCols, count - j),
                   memory + at.q + j * s.width, kTileCols);
    }
  }

  // scores[keys queries] = k · qᵀ, for the tiles in which a query sees a key.
  void score(const float* k, int64_t key, int64_t keys) const {
    const PanelRows share(keys);
    for (int64_t j = 0; j < count; j += kTileCols) {
      const int64_t seen = sees(j + kTileCols - 1, key);
      for (int64_t i = 0; i < share.panels && share.begin(i) < seen; ++i) {
        multiply_tile(
            share.count(i), kTileCols,
            {s.width, k + i * s.width * kPanelStep, kPanelStep, memory + at.q + j * s.width, kTileCols},
            {scores() + share.begin(i) * kQueryBlock + j, kQueryBlock, TileSum::kReplace});
      }
    }
  }

  void softmax(int64_t key, int64_t keys) const {
    const TileTag d;
    for (int64_t lane = 0; lane < count; lane += kTileLanes) {
      const int64_t all = std::min(sees(lane, key), keys);
      const int64_t some = std::min(sees(lane + kTileLanes - 1, key), keys);
      const auto visible = hn::Sub(hn::LoadU(d, seen() + lane), hn::Set(d, static_cast<float>(key)));
      auto top = hn::LoadU(d, maximum() + lane), total = hn::LoadU(d, sum() + lane);
      const auto factor =
          online_softmax(scores() + lane, kQueryBlock, all, some, keys, visible, s.scale, top, total);
      hn::StoreU(top, d, maximum() + lane);
      hn::StoreU(total, d, sum() + lane);
      hn::StoreU(factor, d, shrink() + lane);
    }
  }

  // o[queries width] = shrink · o + scoresᵀ · v.
  void accumulate(const float* v, int64_t key, int64_t keys) const {
    const TileTag d;
    if (key > 0) {
      for (int64_t i = 0; i < count; ++i) {
        const auto factor = hn::Set(d, shrink()[i]);
        float* row = o() + i * padded();
        for (int64_t j = 0; j < padded(); j += kTileLanes) {
          hn::StoreU(hn::Mul(factor, hn::LoadU(d, row + j)), d, row + j);
        }
      }
    }
    const PanelRows rows(count);
    for (int64_t j = 0; j < padded(); j += kTileCols) {
      const int64_t cols = std::min<int64_t>(kTileCols, padded() - j);
      for (int64_t i = 0; i < rows.panels; ++i) {
        const int64_t seen = std::min(sees(rows.begin(i + 1) - 1, key), keys);
        multiply_tile(rows.count(i), cols, {seen, scores() + rows.begin(i), kQueryBlock, v + j * keys, cols},
                      {o() + rows.begin(i) * padded() + j, padded(), TileSum::kAdd});
      }
    }
  }

  void finish(float* out, float* lse) const {
    const TileTag d;
    for (int64_t i = 0; i < count; i += kTileLanes) {  // sum becomes lse, shrink 1 / sum
      const auto total = hn::LoadU(d, sum() + i), top = hn::LoadU(d, maximum() + i);
      const auto none = hn::Eq(total, hn::Zero(d));
      hn::StoreU(hn::IfThenZeroElse(none, hn::Div(hn::Set(d, 1.0f), total)), d, shrink() + i);
      hn::StoreU(hn::IfThenElse(none, hn::Set(d, -HUGE_VALF), hn::Add(top, Log(d, total))), d, sum() + i);
    }
    for (int64_t i = 0; i < count; ++i) {
      if (lse) lse[i] = sum()[i];
      const float *row = o() + i * padded(), factor = shrink()[i];
      for (int64_t j = 0; j < s.width; ++j) out[i * s.q_stride() + j] = row[j] * factor;
    }
  }
};

int64_t forward_floats(const AttentionShape& s) {
  return ForwardMemory(s).total;
}
int64_t query_blocks(const AttentionShape& s) {
  return Blocks(s.queries, kQueryBlock).count;
}

// Blocks [begin, end) of the heads × query_blocks of one group.
void attend(const AttentionShape& s, const AttentionArrays& x, int64_t b, int64_t g, int64_t begin,
            int64_t end, float* memory) {
  const ForwardMemory at(s);
  const Blocks blocks(s.keys, kKeyBlock), queries(s.queries, kQueryBlock);
  const int64_t padded = whole_vectors(s.width), seen = s.visible(s.queries - 1);
  for (int64_t block = 0; block < blocks.count && blocks.begin(block) < seen; ++block) {
    const int64_t key = blocks.begin(block), keys = blocks.size(block);
    pack_a_panels(x.k + s.k_offset(b, key, g), s.k_stride(), keys, s.width, memory + block * at.k_block);
    pack_b_panels(x.v + s.k_offset(b, key, g), s.k_stride(), keys, s.width, memory + at.v + key * padded);
  }
  for (int64_t i = begin; i < end; ++i) {
    const int64_t r = i / queries.count, first = queries.begin(i % queries.count);
    const QueryBlock now{s, at, memory, first, queries.size(i % queries.count)};
    now.start(x.q + s.q_offset(b, first, g, r));
    for (int64_t block = 0; block < blocks.count; ++block) {
      const int64_t key = blocks.begin(block), keys = blocks.size(block);
      if (now.sees(now.count - 1, key) == 0) break;
      now.score(memory + block * at.k_block, key, keys);
      now.softmax(key, keys);
      now.accumulate(memory + at.v + key * now.padded(), key, keys);
    }
    now.finish(x.o + s.q_offset(b, first, g, r), x.lse ? x.lse + s.stat_offset(b, first, g, r) : nullptr);
  }
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {
namespace {

HWY_EXPORT(forward_floats);
HWY_EXPORT(query_blocks);
HWY_EXPORT(attend);

// Of attention_at: where each row of the batch finds its keys and values, and its first query's position.
struct Places {
  const int32_t *lines, *positions;
};

void run(const KernelContext& context, const AttentionShape& s, float* lse, const Places* places = nullptr,
         const int32_t* lengths = nullptr) {
  const AttentionArrays x{context.in<float>(0), context.in<float>(1), context.in<float>(2),
                          context.out<float>(0), lse};
  const int64_t groups = s.batch * s.groups;
  const int64_t blocks = s.heads * HWY_DYNAMIC_DISPATCH(query_blocks)(s);
  if (groups == 0 || blocks == 0) return;
  // Each part packs the keys and values of its group again, so there are no more than balance asks for.
  const int threads = pool_of(context).threads();
  const int64_t parts = threads == 1 ? 1 : std::min(blocks, (4 * threads + groups - 1) / groups);
  const int64_t each = HWY_DYNAMIC_DISPATCH(forward_floats)(s);
  auto* memory = reinterpret_cast<float*>(context.workspace);
  for_each_task(&pool_of(context), groups * parts, [&](int64_t task, int slot) {
    const int64_t group = task / parts, part = task % parts, b = group / s.groups;
    AttentionShape own = s.of_row(b, lengths);
    if (places) {
      own.last.first = places->positions[b];
      own.line = places->lines[b];
    }
    HWY_DYNAMIC_DISPATCH(attend)
    (own, x, b, group % s.groups, blocks * part / parts, blocks * (part + 1) / parts, memory + slot * each);
  });
}

void run_attention(const KernelContext& context) {
  run(context, AttentionShape(context.inputs[0].shape, context.inputs[1].shape, context.attrs),
      context.out<float>(1));
}

void run_attention_padded(const KernelContext& context) {
  run(context, AttentionShape(context.inputs[0].shape, context.inputs[1].shape, context.attrs),
      context.out<float>(1), nullptr, context.in<int32_t>(3));
}

// The same blocks of keys as of the whole sequence, so that a query gets the same bits from both.
void run_attention_at(const KernelContext& context) {
  AttentionShape s(context.inputs[0].shape, context.inputs[1].shape, context.attrs);
  s.causal = true;
  const Places places{context.in<int32_t>(3), context.in<int32_t>(4)};
  for (int64_t b = 0; b < s.batch; ++b) {
    TRIREME_CHECK(places.lines[b] >= 0);
    TRIREME_CHECK(places.lines[b] < context.inputs[1].shape[0]);
  }
  run(context, s, nullptr, &places);
}

size_t attention_workspace(const KernelShape& shape) {
  const AttentionShape s(shape.inputs[0].shape, shape.inputs[1].shape, shape.attrs);
  if (s.width == 0) return 0;
  return static_cast<size_t>(HWY_DYNAMIC_DISPATCH(forward_floats)(s)) * shape.threads * sizeof(float);
}

}  // namespace

void add_attention(KernelTable& table) {
  table.add("attention", DType::f32, {run_attention, attention_workspace});
  table.add("attention_padded", DType::f32, {run_attention_padded, attention_workspace});
  table.add("attention_part", DType::f32, {run_attention, attention_workspace});
  table.add("attention_at", DType::f32, {run_attention_at, attention_workspace});
}

}  // namespace trireme::cpu
#endif  // HWY_ONCE
