// dropout: element i is kept when the random number of its index in the whole tensor says so. The same
// numbers as rng.h, made a vector of Philox blocks at a time.
#include <cmath>

#include "trireme/base/rng.h"
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

using U32 = hn::RebindToUnsigned<F32>;
using VU32 = hn::Vec<U32>;

struct Product {
  VU32 high, low;  // 32 bits each
};

#if HWY_TARGET == HWY_SCALAR
HWY_INLINE Product multiply(VU32 a, VU32 b) {
  const uint64_t product = uint64_t{hn::GetLane(a)} * hn::GetLane(b);
  return {hn::Set(U32(), static_cast<uint32_t>(product >> 32)),
          hn::Set(U32(), static_cast<uint32_t>(product))};
}
#else
// Both halves come from the 64-bit products of even and odd lanes; a 32-bit multiplication for the low
// one would take longer than the shuffles.
HWY_INLINE Product multiply(VU32 a, VU32 b) {
  const U32 d;
  const hn::Repartition<uint64_t, U32> wide;
  const auto even = hn::MulEven(a, b);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(wide, a))), b);
  return {hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even))),
          hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even))};
}
#endif

// words[0 … 4·Lanes) = random_words(key, counter), random_words(key, counter + 1) …
HWY_INLINE void random_blocks(RngKey key, uint64_t counter, uint32_t* words) {
  const U32 d;
  const VU32 low = hn::Set(d, static_cast<uint32_t>(counter));
  VU32 x0 = hn::Add(low, hn::Iota(d, 0)), x1 = hn::Set(d, static_cast<uint32_t>(counter >> 32));
  x1 = hn::Add(x1, hn::IfThenElseZero(hn::Lt(x0, low), hn::Set(d, 1)));  // the carry
  VU32 x2 = hn::Set(d, static_cast<uint32_t>(key.stream)),
       x3 = hn::Set(d, static_cast<uint32_t>(key.stream >> 32));
  uint32_t k0 = static_cast<uint32_t>(key.seed), k1 = static_cast<uint32_t>(key.seed >> 32);
  const VU32 m0 = hn::Set(d, 0xD2511F53u), m2 = hn::Set(d, 0xCD9E8D57u);
  for (int round = 0; round < 10; ++round) {
    const Product a = multiply(x0, m0), b = multiply(x2, m2);
    x0 = hn::Xor(hn::Xor(b.high, x1), hn::Set(d, k0));
    x1 = b.low;
    x2 = hn::Xor(hn::Xor(a.high, x3), hn::Set(d, k1));
    x3 = a.low;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  hn::StoreInterleaved4(x0, x1, x2, x3, d, words);
}

struct Dropout {
  RngKey key;
  uint64_t offset;
  uint32_t threshold;  // in units of 2^-24, as uniform() gives
  float scale;

  // At most kBlock elements, the first of which is number `begin` of this tensor.
  void apply(const float* x, float* y, int64_t begin, int64_t count) const {
    const F32 d;
    const U32 du;
    const hn::RebindToSigned<F32> di;
    constexpr size_t kLanes = hn::MaxLanes(U32());
    alignas(64) uint32_t words[kBlock + 8 * kLanes];
    const uint64_t first = offset + static_cast<uint64_t>(begin), skip = first % 4;
    for (uint64_t have = 0; have < skip + count; have += 4 * hn::Lanes(du)) {
      random_blocks(key, (first + have) / 4, words + have);
    }
    const VF32 factor = hn::Set(d, scale);
    const auto limit = hn::Set(di, static_cast<int32_t>(threshold));
    for_vectors(count, [&](int64_t i, auto access) TRIREME_VECTOR_BODY {
      const auto bits = hn::BitCast(di, hn::ShiftRight<8>(hn::LoadU(du, words + skip + i)));
      const auto dropped = hn::RebindMask(d, hn::Lt(bits, limit));
      access.store(hn::IfThenZeroElse(dropped, hn::Mul(access.load(x + i), factor)), y + i);
    });
  }
};

void dropout(const KernelContext& context) {
  const Attrs& attrs = context.attrs;
  const int64_t* rng = context.in<int64_t>(1);
  const double rate = attrs.real("rate");
  const uint64_t stream =
      static_cast<uint64_t>(attrs.integer("stream")) + static_cast<uint64_t>(rng[1]) * 0x9E3779B97F4A7C15u;
  const Dropout dropout{{static_cast<uint64_t>(rng[0]), stream},
                        static_cast<uint64_t>(attrs.integer("offset", 0)),
                        static_cast<uint32_t>(std::ceil(rate * 0x1p24)),
                        static_cast<float>(1 / (1 - rate))};
  for_blocks<1, 1>(context.pool, context.inputs[0].elements(), context.inputs.first(1), context.outputs,
                   [&](const Block<1, 1>& block) {
                     for (int64_t i = 0; i < block.count; i += kBlock) {
                       const int64_t count = std::min(kBlock, block.count - i);
                       dropout.apply(block.in[0] + i, block.out[0] + i, block.begin + i, count);
                     }
                   });
}

}  // namespace

void add_dropout_kernels(KernelTable& table) {
  add_for_all_formats(table, "dropout", {dropout});
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
