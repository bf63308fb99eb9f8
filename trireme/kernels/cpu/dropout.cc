// dropout: element i is kept when the random number of its index in the whole tensor says so. The same
// numbers as rng.h, made a vector of Philox blocks at a time. A part of a tensor is runs of elements that lie
// one after another in the whole. dropout_add, a fused op, has a bias before it and a residual sum after it.
#include <algorithm>
#include <cmath>

#include "trireme/base/rng.h"
#include "trireme/ir/pieces.h"
#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/dropout.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first
#include <hwy/highway.h>

#include "trireme/kernels/cpu/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace {

using U64 = hn::ScalableTag<uint64_t>;
using VU64 = hn::Vec<U64>;

// The 64-bit products of m and the low halves of a; the high halves of a do not matter.
#if HWY_TARGET == HWY_SCALAR
HWY_INLINE VU64 multiply_low(VU64 a, uint32_t m) {
  return hn::Set(U64(), uint64_t{static_cast<uint32_t>(hn::GetLane(a))} * m);
}
HWY_INLINE VU64 high_to_low(VU64 a) {
  return hn::ShiftRight<32>(a);
}
#else
HWY_INLINE VU64 multiply_low(VU64 a, uint32_t m) {
  const hn::Repartition<uint32_t, U64> d;
  return hn::MulEven(hn::BitCast(d, a), hn::Set(d, m));
}
// A shuffle rather than a shift, which on x86 would wait for the unit that multiplies.
HWY_INLINE VU64 high_to_low(VU64 a) {
  const hn::Repartition<uint32_t, U64> d;
  return hn::BitCast(U64(), hn::Shuffle2301(hn::BitCast(d, a)));
}
#endif

// Philox as random_words() has it. Each 32-bit word stands in the low half of a 64-bit lane, so that one
// multiplication gives both halves of a product where they are needed; high halves hold remains.
class Philox {
 public:
  static constexpr int kRounds = 10;

  explicit Philox(RngKey key) : stream_(key.stream) {
    uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
    for (int round = 0; round < kRounds; ++round) {
      keys_[round][0] = k0;
      keys_[round][1] = k1;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
  }

  // words[0 … 4·Lanes(U64)) = random_words(key, counter), random_words(key, counter + 1) …
  HWY_INLINE void blocks(uint64_t counter, uint32_t* words) const {
    const U64 d;
    VU64 x0 = hn::Add(hn::Set(d, counter), hn::Iota(d, 0)), x1 = hn::ShiftRight<32>(x0);
    VU64 x2 = hn::Set(d, stream_), x3 = hn::Set(d, stream_ >> 32);
    for (int round = 0; round < kRounds; ++round) {
      const VU64 a = multiply_low(x0, 0xD2511F53u), b = multiply_low(x2, 0xCD9E8D57u);
      x0 = hn::Xor(hn::Xor(high_to_low(b), x1), hn::Set(d, keys_[round][0]));
      x1 = b;
      x2 = hn::Xor(hn::Xor(high_to_low(a), x3), hn::Set(d, keys_[round][1]));
      x3 = a;
    }
    const VU64 low = hn::Set(d, 0xFFFFFFFFu);
    const VU64 first = hn::Or(hn::And(x0, low), hn::ShiftLeft<32>(x1));
    const VU64 second = hn::Or(hn::And(x2, low), hn::ShiftLeft<32>(x3));
    hn::StoreInterleaved2(first, second, d, reinterpret_cast<uint64_t*>(words));
  }

 private:
  uint64_t stream_;
  uint64_t keys_[kRounds][2];
};

// Where elements of a part lie in the whole tensor.
class WholeIndex {
 public:
  WholeIndex(const Shape& x, const Attrs& attrs) : offset_(attrs.integer("offset", 0)) {
    const Shape part = part_in_pieces(x, attrs);
    const Shape whole = whole_in_pieces(attrs.has("whole") ? Shape(attrs.integers("whole")) : x, attrs);
    for (int d = 1; d < part.rank(); ++d) {
      if (part[d] != whole[d]) outer_ = d;
    }
    run_ = part.elements(outer_, part.rank());
    for (int d = 0; d < outer_; ++d) {
      extents_[d] = part[d];
      strides_[d] = whole.elements(d + 1, whole.rank());
    }
  }

  int64_t left_in_run(int64_t element) const { return run_ - element % run_; }
  uint64_t operator()(int64_t element) const {
    int64_t run = element / run_, index = offset_ + element % run_;
    for (int d = outer_ - 1; d >= 0; --d) {
      index += run % extents_[d] * strides_[d];
      run /= extents_[d];
    }
    return static_cast<uint64_t>(index);
  }

 private:
  int64_t offset_, run_;
  int outer_ = 0;  // dims before this one tell runs apart
  int64_t extents_[Shape::kMaxDims], strides_[Shape::kMaxDims];
};

class Dropout {
 public:
  // Of the tensor `x`, by the op's attributes and the two numbers at `rng`.
  Dropout(const Shape& x, const Attrs& attrs, const int64_t* rng)
      : random_({static_cast<uint64_t>(rng[0]), static_cast<uint64_t>(attrs.integer("stream")) +
                                                    static_cast<uint64_t>(rng[1]) * 0x9E3779B97F4A7C15u}),
        threshold_(static_cast<uint32_t>(std::ceil(attrs.real("rate") * 0x1p24))),
        scale_(static_cast<float>(1 / (1 - attrs.real("rate")))),
        whole_index_(x, attrs) {}

  // Elements [begin, begin + count) of the tensor. y may be x.
  void apply(const float* x, float* y, int64_t begin, int64_t count) const {
    for (int64_t i = 0, some; i < count; i += some) {
      some = std::min({kBlock, count - i, whole_index_.left_in_run(begin + i)});
      apply_in_run(x + i, y + i, whole_index_(begin + i), some);
    }
  }

 private:
  // At most kBlock elements of one run, the first of which is number `first` of the whole tensor.
  void apply_in_run(const float* x, float* y, uint64_t first, int64_t count) const {
    const F32 d;
    const hn::RebindToUnsigned<F32> du;
    const hn::RebindToSigned<F32> di;
    // Numbers are made from a whole block on, and read to the end of a whole vector.
    alignas(64) uint32_t words[kBlock + 8 * hn::MaxLanes(F32())];
    const uint64_t skip = first % 4;
    for (uint64_t have = 0; have < skip + count; have += 4 * hn::Lanes(U64())) {
      random_.blocks((first + have) / 4, words + have);
    }
    const VF32 factor = hn::Set(d, scale_);
    const auto limit = hn::Set(di, static_cast<int32_t>(threshold_));
    for_vectors(count, [&](int64_t i, auto access) TRIREME_VECTOR_BODY {
      const auto bits = hn::BitCast(di, hn::ShiftRight<8>(hn::LoadU(du, words + skip + i)));
      const auto dropped = hn::RebindMask(d, hn::Lt(bits, limit));
      access.store(hn::IfThenZeroElse(dropped, hn::Mul(access.load(x + i), factor)), y + i);
    });
  }

  Philox random_;
  uint32_t threshold_;  // in units of 2^-24, as uniform() gives
  float scale_;
  WholeIndex whole_index_;
};

void dropout(const KernelContext& context) {
  const Dropout drop(context.inputs[0].shape, context.attrs, context.in<int64_t>(1));
  for_blocks<1, 1>(
      pool_of(context), context.inputs[0].elements(), context.inputs.first(1), context.outputs,
      [&](const Block<1, 1>& block) { drop.apply(block.in[0], block.out[0], block.begin, block.count); });
}

// s = residual + dropout(x + bias), the bias being there or not; rounded where the three ops would have
// stored their results. The bias is widened once, into workspace.
void dropout_add(const KernelContext& context) {
  const Dropout drop(context.inputs[0].shape, context.attrs, context.in<int64_t>(1));
  const DType format = context.outputs[0].dtype;
  const bool has_bias = context.inputs.size() == 4;
  const int64_t width = has_bias ? context.inputs[3].elements() : 1;
  const float* bias = has_bias ? static_cast<const float*>(context.inputs[3].data) : nullptr;
  if (has_bias && format != DType::f32) {
    float* copy = reinterpret_cast<float*>(context.workspace);
    widen(context.inputs[3], 0, width, copy);
    bias = copy;
  }
  const std::array<TensorView, 2> inputs = {context.inputs[0], context.inputs[2]};
  for_blocks<2, 1>(pool_of(context), context.inputs[0].elements(), inputs, context.outputs,
                   [&](const Block<2, 1>& block) {
                     alignas(64) float kept[kBlock];
                     for (int64_t i = 0, count; i < block.count; i += count) {
                       count = std::min(kBlock, block.count - i);
                       const float* x = block.in[0] + i;
                       if (bias) {
                         map_repeated<AddVectors>(count, kept, x, bias, block.begin + i, width);
                         round_to(format, kept, count);
                         x = kept;
                       }
                       drop.apply(x, kept, block.begin + i, count);
                       round_to(format, kept, count);
                       map(AddVectors(), count, block.out[0] + i, block.in[1] + i, kept);
                     }
                   });
}

size_t dropout_add_workspace(const KernelShape& shape) {
  const bool widened = shape.inputs.size() == 4 && shape.inputs[3].dtype != DType::f32;
  return widened ? shape.inputs[3].shape.elements() * sizeof(float) : 0;
}

}  // namespace

void add_dropout_kernels(KernelTable& table) {
  add_for_all_formats(table, "dropout", {dropout});
  add_for_all_formats(table, "dropout_add", {dropout_add, dropout_add_workspace});
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {

HWY_EXPORT(add_dropout_kernels);
void add_dropout(KernelTable& table) {
  HWY_DYNAMIC_DISPATCH(add_dropout_kernels)(table);
}

}  // namespace trireme::cpu
#endif
