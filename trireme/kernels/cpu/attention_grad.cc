// attention_grad: with P = exp(scale · q kᵀ − lse), dP = do vᵀ, delta = Σ do · o and dS = scale · P · (dP −
// delta): dq = dS k, dk = dSᵀ q, dv = Pᵀ do. One block of queries and keys at a time; scores are computed
// again rather than kept. Blocks of keys are the outer loop and queries (all heads of the group) the inner
// one, so every sum is in ascending order however the work is shared out.
#include <algorithm>

#include "trireme/kernels/cpu/attention.h"
#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/tasks.h"
#include "trireme/kernels/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/attention_grad.cc"
#include "hwy/foreach_target.h"
// foreach_target.h must come first.
#include "hwy/highway.h"
#include "trireme/kernels/cpu/gemm_pack-inl.h"
#include "trireme/kernels/cpu/gemm_tile-inl.h"
#include "trireme/kernels/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {

// Of queries and of keys: whole tiles, and few enough that the two blocks of scores stay in L1.
constexpr int64_t kGradBlock = kTileCols * (kTileCols < 64 ? 64 / kTileCols : 1);

// The temporary memory of one thread, in floats. A unit is one block of queries of one head.
struct GradMemory {
  explicit GradMemory(const AttentionShape& s) {
    const int64_t units = s.heads * Blocks(s.queries, kGradBlock).count;
    const int64_t padded = whole_vectors(s.width);
    const int64_t panels = PanelRows(kGradBlock).panels;
    left = panels * kPanelStep * s.width;
    right = kGradBlock * padded;
    unit = whole_line(2 * left + 2 * right + 2 * kGradBlock);
    keys = units * unit;
    values = keys + whole_line(kGradBlock * s.width);
    keys_right = values + whole_line(kGradBlock * s.width);
    p = keys_right + whole_line(right);
    ds = p + whole_line(kGradBlock * kGradBlock);
    ds_left = ds + whole_line(kGradBlock * kGradBlock);
    total = ds_left + whole_line(panels * kPanelStep * kGradBlock);
  }
  static int64_t whole_line(int64_t floats) { return (floats + 15) / 16 * 16; }

  // A unit holds q and do as left operands, then as right ones, then lse and delta.
  int64_t left, right, unit;
  int64_t keys, values;  // as right operands of the scores
  int64_t keys_right;    // as right operand of dq
  int64_t p, ds, ds_left, total;
};

int64_t grad_floats(const AttentionShape& s) {
  return GradMemory(s).total;
}
int64_t grad_key_blocks(const AttentionShape& s) {
  return Blocks(s.keys, kGradBlock).count;
}
int64_t grad_units(const AttentionShape& s) {
  return s.heads * Blocks(s.queries, kGradBlock).count;
}

// Packs what one unit needs, and sums delta.
void pack_unit(const AttentionShape& s, const AttentionGradArrays& x, int64_t b, int64_t g, int64_t r,
               int64_t first, int64_t count, const GradMemory& at, float* unit) {
  const int64_t offset = s.q_offset(b, first, g, r), stride = s.q_stride();
  pack_a_panels(x.q + offset, stride, count, s.width, unit);
  pack_a_panels(x.grad + offset, stride, count, s.width, unit + at.left);
  pack_b_panels(x.q + offset, stride, count, s.width, unit + 2 * at.left);
  pack_b_panels(x.grad + offset, stride, count, s.width, unit + 2 * at.left + at.right);
  float* lse = unit + 2 * at.left + 2 * at.right;
  float* delta = lse + kGradBlock;
  const TileTag d;
  for (int64_t i = 0; i < count; ++i) {
    lse[i] = x.lse[s.stat_offset(b, first + i, g, r)];
    const float *grad = x.grad + offset + i * stride, *o = x.o + offset + i * stride;
    auto sum = hn::Zero(d);
    int64_t j = 0;
    for (; j + static_cast<int64_t>(kTileLanes) <= s.width; j += kTileLanes) {
      sum = hn::MulAdd(hn::LoadU(d, grad + j), hn::LoadU(d, o + j), sum);
    }
    float total = hn::GetLane(hn::SumOfLanes(d, sum));
    for (; j < s.width; ++j) total += grad[j] * o[j];
    delta[i] = total;
  }
}

// Scores become P and dP becomes dS, in one row; keys from `seen` to `count` get zeros.
HWY_INLINE void score_gradients(float* HWY_RESTRICT p, float* HWY_RESTRICT ds, int64_t seen, int64_t count,
                                float scale_by, float lse_of, float delta_of) {
  const TileTag d;
  const auto scale = hn::Set(d, scale_by), lse = hn::Set(d, lse_of), delta = hn::Set(d, delta_of);
  for (int64_t j = 0; j < count; j += kTileLanes) {
    const auto mask = hn::FirstN(d, static_cast<size_t>(std::clamp<int64_t>(seen - j, 0, kTileLanes)));
    const auto value = hn::IfThenElseZero(mask, Exp(d, hn::MulSub(hn::LoadU(d, p + j), scale, lse)));
    const auto slope = hn::Mul(scale, hn::Sub(hn::LoadU(d, ds + j), delta));
    hn::StoreU(value, d, p + j);
    hn::StoreU(hn::IfThenElseZero(mask, hn::Mul(value, slope)), d, ds + j);
  }
}

// One block of queries against one of keys.
struct GradPair {
  const AttentionShape& s;
  const GradMemory& at;
  float* memory;
  const float* unit;
  int64_t query, queries;  // first, count
  int64_t key, keys;

  // Keys of the block that the i-th query sees.
  int64_t sees(int64_t i) const { return std::clamp<int64_t>(s.visible(query + i) - key, 0, keys); }

  // out[queries keys] = left · right, for the tiles that a query of them sees.
  void scores(const float* left, const float* right, float* out) const {
    const PanelRows share(queries);
    for (int64_t j = 0; j < keys; j += kTileCols) {
      for (int64_t i = 0; i < share.panels; ++i) {
        if (j >= sees(share.begin(i + 1) - 1)) continue;
        multiply_tile(share.count(i), kTileCols,
                      {s.width, left + i * s.width * kPanelStep, kPanelStep, right + j * s.width, kTileCols},
                      {out + share.begin(i) * kGradBlock + j, kGradBlock, TileSum::kReplace});
      }
    }
  }

  void p_and_ds() const {
    const float* lse = unit + 2 * at.left + 2 * at.right;
    scores(unit, memory + at.keys, memory + at.p);
    scores(unit + at.left, memory + at.values, memory + at.ds);
    for (int64_t i = 0; i < queries; ++i) {
      score_gradients(memory + at.p + i * kGradBlock, memory + at.ds + i * kGradBlock, sees(i), keys, s.scale,
                      lse[i], lse[kGradBlock + i]);
    }
  }

  // out[keys width] += weightsᵀ · right, where weights is P or dS.
  void add_to_keys(const float* weights, const float* right, float* out) const {
    const PanelRows share(keys);
    for (int64_t j = 0; j < s.width; j += kTileCols) {
      const int64_t cols = std::min<int64_t>(kTileCols, s.width - j), step = whole_vectors(cols);
      for (int64_t i = 0; i < share.panels; ++i) {
        const int64_t row = share.begin(i);
        // Queries before the first one that sees this key have zeros.
        const int64_t skip = std::max<int64_t>(s.first_seeing(key + row) - query, 0);
        if (skip >= queries) continue;
        multiply_tile(share.count(i), cols,
                      {queries - skip, weights + skip * kGradBlock + row, kGradBlock,
                       right + j * queries + skip * step, step},
                      {out + row * s.k_stride() + j, s.k_stride(), TileSum::kAdd});
      }
    }
  }

  // out[queries width] += dS · k.
  void add_to_queries(float* out) const {
    float* left = memory + at.ds_left;
    pack_a_panels(memory + at.ds, kGradBlock, queries, keys, left);
    const PanelRows share(queries);
    for (int64_t j = 0; j < s.width; j += kTileCols) {
      const int64_t cols = std::min<int64_t>(kTileCols, s.width - j), step = whole_vectors(cols);
      for (int64_t i = 0; i < share.panels; ++i) {
        const int64_t seen = sees(share.begin(i + 1) - 1);
        if (seen == 0) continue;
        multiply_tile(
            share.count(i), cols,
            {seen, left + i * keys * kPanelStep, kPanelStep, memory + at.keys_right + j * keys, step},
            {out + share.begin(i) * s.q_stride() + j, s.q_stride(), TileSum::kAdd});
      }
    }
  }
};

void clear_rows(float* rows, int64_t stride, int64_t count, int64_t width) {
  for (int64_t i = 0; i < count; ++i) std::fill_n(rows + i * stride, width, 0.0f);
}

void attention_backward(const AttentionShape& s, const AttentionGradArrays& x, const AttentionGradPart& part,
                        float* memory) {
  const GradMemory at(s);
  const Blocks key_blocks(s.keys, kGradBlock), query_blocks(s.queries, kGradBlock);
  const int64_t b = part.batch, g = part.group;
  for (int64_t u = part.unit_begin; u < part.unit_end; ++u) {
    const int64_t r = u / query_blocks.count, i = u % query_blocks.count;
    pack_unit(s, x, b, g, r, query_blocks.begin(i), query_blocks.size(i), at, memory + u * at.unit);
    if (part.queries) {
      clear_rows(x.dq + s.q_offset(b, query_blocks.begin(i), g, r), s.q_stride(), query_blocks.size(i),
                 s.width);
    }
  }
  for (int64_t block = part.key_begin; block < part.key_end; ++block) {
    const int64_t key = key_blocks.begin(block), keys = key_blocks.size(block);
    const int64_t offset = s.k_offset(b, key, g);
    for (int64_t j = 0; j < keys; j += kTileCols) {
      const int64_t cols = std::min<int64_t>(kTileCols, keys - j), from = offset + j * s.k_stride();
      pack_columns(x.k + from, s.k_stride(), s.width, cols, memory + at.keys + j * s.width, kTileCols);
      pack_columns(x.v + from, s.k_stride(), s.width, cols, memory + at.values + j * s.width, kTileCols);
    }
    pack_b_panels(x.k + offset, s.k_stride(), keys, s.width, memory + at.keys_right);
    if (part.keys) {
      clear_rows(x.dk + offset, s.k_stride(), keys, s.width);
      clear_rows(x.dv + offset, s.k_stride(), keys, s.width);
    }
    for (int64_t u = part.unit_begin; u < part.unit_end; ++u) {
      const int64_t r = u / query_blocks.count, i = u % query_blocks.count;
      const float* unit = memory + u * at.unit;
      const GradPair pair{s, at, memory, unit, query_blocks.begin(i), query_blocks.size(i), key, keys};
      if (pair.sees(pair.queries - 1) == 0) continue;
      pair.p_and_ds();
      if (part.keys) {
        pair.add_to_keys(memory + at.p, unit + 2 * at.left + at.right, x.dv + offset);
        pair.add_to_keys(memory + at.ds, unit + 2 * at.left, x.dk + offset);
      }
      if (part.queries) pair.add_to_queries(x.dq + s.q_offset(b, pair.query, g, r));
    }
  }
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {
namespace {

HWY_EXPORT(grad_floats);
HWY_EXPORT(grad_key_blocks);
HWY_EXPORT(grad_units);
HWY_EXPORT(attention_backward);

void run_backward(const KernelContext& context, const int32_t* lengths) {
  const AttentionShape s(context.inputs[1].shape, context.inputs[2].shape, context.attrs);
  const AttentionGradArrays x{context.in<float>(0),  context.in<float>(1),  context.in<float>(2),
                              context.in<float>(3),  context.in<float>(4),  context.in<float>(5),
                              context.out<float>(0), context.out<float>(1), context.out<float>(2)};
  const int64_t groups = s.batch * s.groups;
  if (groups == 0 || s.width == 0) return;
  const int64_t units = HWY_DYNAMIC_DISPATCH(grad_units)(s);
  const int64_t blocks = HWY_DYNAMIC_DISPATCH(grad_key_blocks)(s);
  const int64_t each = HWY_DYNAMIC_DISPATCH(grad_floats)(s);
  auto* memory = reinterpret_cast<float*>(context.workspace);
  const int threads = pool_of(context).threads();
  // A group is one part when there are groups enough. Otherwise dk and dv are shared out by keys and dq by
  // queries, which computes the scores twice.
  const int64_t splits = (4 * threads + groups - 1) / groups;
  const bool whole = threads == 1 || groups >= 2 * threads;
  const int64_t key_parts = whole ? 1 : std::min(blocks, splits);
  const int64_t query_parts = whole ? 0 : std::min(units, splits);
  const int64_t parts = key_parts + query_parts;
  for_each_task(&pool_of(context), groups * parts, [&](int64_t task, int slot) {
    const int64_t group = task / parts, i = task % parts, j = i - key_parts;
    AttentionGradPart part{group / s.groups, group % s.groups, 0, blocks, 0, units, true, whole};
    if (i < key_parts) {
      part.key_begin = blocks * i / key_parts;
      part.key_end = blocks * (i + 1) / key_parts;
    } else {
      part.keys = false;
      part.queries = true;
      part.unit_begin = units * j / query_parts;
      part.unit_end = units * (j + 1) / query_parts;
    }
    HWY_DYNAMIC_DISPATCH(attention_backward)
    (s.of_row(part.batch, lengths), x, part, memory + slot * each);
  });
}

void run_attention_grad(const KernelContext& context) {
  run_backward(context, nullptr);
}
void run_attention_padded_grad(const KernelContext& context) {
  run_backward(context, context.in<int32_t>(6));
}

size_t attention_grad_workspace(const KernelShape& shape) {
  const AttentionShape s(shape.inputs[1].shape, shape.inputs[2].shape, shape.attrs);
  return static_cast<size_t>(HWY_DYNAMIC_DISPATCH(grad_floats)(s)) * shape.threads * sizeof(float);
}

}  // namespace

void add_attention_grad(KernelTable& table) {
  table.add("attention_grad", DType::f32, {run_attention_grad, attention_grad_workspace});
  table.add("attention_padded_grad", DType::f32, {run_attention_padded_grad, attention_grad_workspace});
  table.add("attention_part_grad", DType::f32, {run_attention_grad, attention_grad_workspace});
}

}  // namespace trireme::cpu
#endif  // HWY_ONCE
