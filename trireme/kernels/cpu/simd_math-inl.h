// Elementary functions of f32 vectors, for kernels written with Highway: Exp, Log, Tanh, Sigmoid, Gelu, Erf.
//
// Include it after hwy/highway.h in a file that uses foreach_target.h. Names are spelled like Highway's own,
// because they are used beside them. Results are within 3 units in the last place (Gelu: relative to |x|),
// the same for every lane whatever its neighbours are, and bitwise the same on all targets with FMA.
// NaN gives NaN, infinities and arguments out of range give the limits of the function.
#if defined(TRIREME_KERNELS_CPU_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_SIMD_MATH_INL_H_
#undef TRIREME_KERNELS_CPU_SIMD_MATH_INL_H_
#else
#define TRIREME_KERNELS_CPU_SIMD_MATH_INL_H_
#endif

#include <cstdint>
#include <iterator>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// y = n·ln 2 + r with |r| <= ln 2 / 2. `steps` is n as an integer, `tail` is expm1(r).
template <class D, class V>
struct ExpParts {
  V tail;
  hn::VFromD<hn::RebindToSigned<D>> steps;
};

// For |y| < 2^21. NaN gives a NaN tail.
template <class D, class V>
HWY_INLINE ExpParts<D, V> SplitExp(D d, V y) {
  const hn::RebindToSigned<D> di;
  // Adding 1.5·2^23 leaves the nearest integer in the low bits of the mantissa; this is cheaper than
  // conversions, which on x86 must be guarded against overflow.
  const V magic = hn::Set(d, 12582912.0f);
  const V shifted = hn::MulAdd(y, hn::Set(d, 1.44269504f), magic);
  const V n = hn::Sub(shifted, magic);
  // ln 2 in two parts; the first has ten bits, so that n times it is exact even without FMA.
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), y);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  // expm1(r) = r + r²·q(r), q fitted at Chebyshev nodes; error 1.1e-8.
  V q = hn::Set(d, 1.39269266e-3f);
  q = hn::MulAdd(q, r, hn::Set(d, 8.36377387e-3f));
  q = hn::MulAdd(q, r, hn::Set(d, 4.16665501e-2f));
  q = hn::MulAdd(q, r, hn::Set(d, 1.66665734e-1f));
  q = hn::MulAdd(q, r, hn::Set(d, 0.5f));
  const V tail = hn::MulAdd(hn::Mul(r, r), q, r);
  return {tail, hn::Sub(hn::BitCast(di, shifted), hn::Set(di, 0x4B400000))};
}

// 2^n for n in [-126, 127].
template <class D, class VI>
HWY_INLINE hn::VFromD<D> PowerOfTwo(D d, VI n) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(di, 127))));
}

template <class D, class V>
HWY_INLINE V Exp(D d, V x) {
  // Comparisons rather than Min and Max, because they let NaN through. Beyond these ends the result has
  // reached infinity and zero.
  const V high = hn::Set(d, 88.8f), low = hn::Set(d, -104.0f);
  V y = hn::IfThenElse(hn::Gt(x, high), high, x);
  y = hn::IfThenElse(hn::Lt(y, low), low, y);
  const ExpParts<D, V> parts = SplitExp(d, y);
  // In two factors, since n may be 128 (just below overflow) or -150 (subnormal results).
  const auto half = hn::ShiftRight<1>(parts.steps);
  const V first = PowerOfTwo(d, half);
  const V second = PowerOfTwo(d, hn::Sub(parts.steps, half));
  return hn::Mul(hn::MulAdd(parts.tail, first, first), second);
}

template <class D, class V>
HWY_INLINE V Log(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V one = hn::Set(d, 1.0f), zero = hn::Zero(d);
  const auto subnormal = hn::Lt(x, hn::Set(d, 1.17549435e-38f));
  const V normal = hn::IfThenElse(subnormal, hn::Mul(x, hn::Set(d, 33554432.0f)), x);  // times 2^25
  // x = m·2^e with m in [sqrt(1/2), sqrt(2)): move the boundary of the mantissa to sqrt(1/2).
  const auto offset = hn::Set(di, 0x3F3504F3);
  const auto bits = hn::Sub(hn::BitCast(di, normal), offset);
  V e = hn::ConvertTo(d, hn::ShiftRight<23>(bits));
  e = hn::Sub(e, hn::IfThenElseZero(subnormal, hn::Set(d, 25.0f)));
  const V m = hn::BitCast(d, hn::Add(hn::And(bits, hn::Set(di, 0x007FFFFF)), offset));
  const V f = hn::Sub(m, one);
  // log(1 + f) = f - f²/2 + f³·p(f), p fitted at Chebyshev nodes; error 3.4e-9.
  V p = hn::Set(d, 6.97161147e-2f);
  p = hn::MulAdd(p, f, hn::Set(d, -1.14797338e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.16854199e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, -1.24256873e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.42490576e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, -1.66678023e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 2.00007157e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, -2.49999970e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 3.33333312e-1f));
  const V f2 = hn::Mul(f, f);
  // Small parts first: e·(low part of ln 2), the polynomial, then f and e·(high part).
  V tail = hn::MulAdd(hn::Mul(f2, f), p, hn::Mul(e, hn::Set(d, -2.12194440e-4f)));
  tail = hn::NegMulAdd(f2, hn::Set(d, 0.5f), tail);
  V y = hn::MulAdd(e, hn::Set(d, 0.693359375f), hn::Add(f, tail));
  const V infinity = hn::BitCast(d, hn::Set(di, 0x7F800000));
  const V nan = hn::BitCast(d, hn::Set(di, 0x7FC00000));
  y = hn::IfThenElse(hn::Lt(x, infinity), y, x);  // infinity and NaN stay as they are
  y = hn::IfThenElse(hn::Lt(x, zero), nan, y);
  return hn::IfThenElse(hn::Eq(x, zero), hn::Neg(infinity), y);
}

// With t = expm1(2|x|): tanh |x| = t / (t + 2), which keeps its accuracy down to zero.
template <class D, class V>
HWY_INLINE V Tanh(D d, V x) {
  const V limit = hn::Set(d, 20.0f);  // of 2|x|; tanh is 1 in f32 from 18.1 on
  const V magnitude = hn::Abs(x);
  V y = hn::Add(magnitude, magnitude);
  y = hn::IfThenElse(hn::Gt(y, limit), limit, y);
  const ExpParts<D, V> parts = SplitExp(d, y);
  const V scale = PowerOfTwo(d, parts.steps);
  const V t = hn::MulAdd(parts.tail, scale, hn::Sub(scale, hn::Set(d, 1.0f)));
  const V result = hn::Div(t, hn::Add(t, hn::Set(d, 2.0f)));
  return hn::CopySign(result, x);
}

template <class D, class V>
HWY_INLINE V Sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  return hn::Div(one, hn::Add(one, Exp(d, hn::Neg(x))));
}

// The tanh form, 0.5·x·(1 + tanh(u)) with u = sqrt(2/pi)·(x + 0.044715·x³), written as x·sigmoid(2u).
template <class D, class V>
HWY_INLINE V Gelu(D d, V x) {
  const V cubic = hn::MulAdd(hn::Mul(x, x), hn::Set(d, -0.0713548163f), hn::Set(d, -1.59576912f));
  return hn::Div(x, hn::Add(hn::Set(d, 1.0f), Exp(d, hn::Mul(x, cubic))));
}

// Below 1, x times a polynomial of x²; above, 1 − e^p with a polynomial p of x. Both are Chebyshev fits.
template <class D, class V>
HWY_INLINE V Erf(D d, V x) {
  const auto polynomial = [&](V t, const auto& coefficients) HWY_ATTR {  // the highest power first
    V sum = hn::Set(d, coefficients[0]);
    for (size_t i = 1; i < std::size(coefficients); ++i)
      sum = hn::MulAdd(sum, t, hn::Set(d, coefficients[i]));
    return sum;
  };
  constexpr float kNear[] = {7.88249745e-05f, -0.000801885501f, 0.00518931216f, -0.0268543288f,
                             0.112835974f,    -0.37612626f,     1.12837911f};
  constexpr float kFar[] = {-1.33093909e-05f, 0.000317572034f, -0.00343686761f, 0.0226219855f,
                            -0.103318982f,    -0.639093339f,   -1.1259259f,     -0.000756968628f};
  const V one = hn::Set(d, 1.0f), magnitude = hn::Abs(x);
  const V inner = hn::Mul(x, polynomial(hn::Mul(x, x), kNear));
  // erf is 1 in f32 from 3.93 on. A comparison rather than Min, which on x86 loses NaN.
  const V limit = hn::Set(d, 4.0f);
  const V bounded = hn::IfThenElse(hn::Gt(magnitude, limit), limit, magnitude);
  const V outer = hn::CopySign(hn::Sub(one, Exp(d, polynomial(bounded, kFar))), x);
  return hn::IfThenElse(hn::Lt(magnitude, one), inner, outer);
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_SIMD_MATH_INL_H_
