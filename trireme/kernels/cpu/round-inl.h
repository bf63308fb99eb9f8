// Vectors of f32 rounded to what 16 bits hold, still as f32: to nearest even, as Bf16 and F16 do. For sums
// that stay in registers where unfused ops would have stored them. Include it after hwy/highway.h.
#if defined(TRIREME_KERNELS_CPU_ROUND_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_ROUND_INL_H_
#undef TRIREME_KERNELS_CPU_ROUND_INL_H_
#else
#define TRIREME_KERNELS_CPU_ROUND_INL_H_
#endif

#include "hwy/highway.h"
#include "trireme/base/dtype.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Highway's own demotion to bfloat16 cuts the low half off, so the rounding is spelled out.
struct RoundToBf16 {
  template <class D>
  HWY_INLINE hn::VFromD<D> operator()(D d, hn::VFromD<D> value) const {
    const hn::RebindToUnsigned<D> du;
    const auto word = hn::BitCast(du, value);
    const auto odd = hn::And(hn::ShiftRight<16>(word), hn::Set(du, 1));
    const auto rounded = hn::Add(hn::Add(word, hn::Set(du, 0x7fff)), odd);
    const auto quiet = hn::Or(word, hn::Set(du, 0x400000));
    const auto nan = hn::RebindMask(du, hn::IsNaN(value));
    return hn::BitCast(d, hn::And(hn::IfThenElse(nan, quiet, rounded), hn::Set(du, 0xffff0000u)));
  }
};

// Without F16C Highway's software conversion does not round to nearest even; such machines are rare
// enough for the scalar one.
struct RoundToF16 {
  template <class D>
  HWY_INLINE hn::VFromD<D> operator()(D d, hn::VFromD<D> value) const {
#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2  // the greater, the older
    HWY_ALIGN float lanes[hn::MaxLanes(d)];
    hn::Store(value, d, lanes);
    for (size_t i = 0; i < hn::Lanes(d); ++i) lanes[i] = static_cast<float>(F16(lanes[i]));
    return hn::Load(d, lanes);
#else
    return hn::PromoteTo(d, hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), value));
#endif
  }
};

struct RoundToF32 {
  template <class D>
  HWY_INLINE hn::VFromD<D> operator()(D, hn::VFromD<D> value) const {
    return value;
  }
};

// Calls f with the functor that rounds to `format`.
template <class F>
HWY_INLINE void with_rounding(DType format, const F& f) {
  if (format == DType::bf16) return f(RoundToBf16());
  if (format == DType::f16) return f(RoundToF16());
  f(RoundToF32());
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_ROUND_INL_H_
