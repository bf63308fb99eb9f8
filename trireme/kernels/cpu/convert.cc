// Conversions between f32 and other formats; see convert.h.
#include "trireme/kernels/cpu/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/convert.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first
#include <hwy/highway.h>

#include "trireme/kernels/cpu/map-inl.h"
#include "trireme/kernels/cpu/round-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace {

using U32 = hn::RebindToUnsigned<F32>;
using U16 = hn::Rebind<uint16_t, F32>;

template <typename T>
void widen_scalar(const T* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]);
}
template <typename T>
void narrow_scalar(const float* from, int64_t count, T* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(from[i]);
}

void widen_bf16(const Bf16* from, int64_t count, float* to) {
  const F32 d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = hn::PromoteTo(U32(), hn::LoadU(U16(), &from[i].bits));
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(bits)), d, to + i);
  }
  widen_scalar(from + i, count - i, to + i);
}

void narrow_bf16(const float* from, int64_t count, Bf16* to) {
  const F32 d;
  const U32 du;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto word = hn::BitCast(du, RoundToBf16()(d, hn::LoadU(d, from + i)));
    hn::StoreU(hn::TruncateTo(U16(), hn::ShiftRight<16>(word)), U16(), &to[i].bits);
  }
  narrow_scalar(from + i, count - i, to + i);
}

#if HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2  // as in round-inl.h
void widen_f16(const F16* from, int64_t count, float* to) {
  widen_scalar(from, count, to);
}
void narrow_f16(const float* from, int64_t count, F16* to) {
  narrow_scalar(from, count, to);
}
#else
using Half = hn::Rebind<hwy::float16_t, F32>;

void widen_f16(const F16* from, int64_t count, float* to) {
  const F32 d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto half = hn::BitCast(Half(), hn::LoadU(U16(), &from[i].bits));
    hn::StoreU(hn::PromoteTo(d, half), d, to + i);
  }
  widen_scalar(from + i, count - i, to + i);
}
void narrow_f16(const float* from, int64_t count, F16* to) {
  const F32 d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto half = hn::DemoteTo(Half(), hn::LoadU(d, from + i));
    hn::StoreU(hn::BitCast(U16(), half), U16(), &to[i].bits);
  }
  narrow_scalar(from + i, count - i, to + i);
}
#endif

}  // namespace

void widen_range(const TensorView& from, int64_t begin, int64_t count, float* to) {
  switch (from.dtype) {
    case DType::f64:
      return widen_scalar(from.as<double>() + begin, count, to);
    case DType::f32:
      return widen_scalar(from.as<float>() + begin, count, to);
    case DType::f16:
      return widen_f16(from.as<F16>() + begin, count, to);
    case DType::bf16:
      return widen_bf16(from.as<Bf16>() + begin, count, to);
    case DType::i64:
      return widen_scalar(from.as<int64_t>() + begin, count, to);
    case DType::i32:
      return widen_scalar(from.as<int32_t>() + begin, count, to);
    case DType::u8:
      return widen_scalar(from.as<uint8_t>() + begin, count, to);
  }
}

void narrow_range(const float* from, int64_t count, const TensorView& to, int64_t begin) {
  switch (to.dtype) {
    case DType::f64:
      return narrow_scalar(from, count, to.as<double>() + begin);
    case DType::f32:
      return narrow_scalar(from, count, to.as<float>() + begin);
    case DType::f16:
      return narrow_f16(from, count, to.as<F16>() + begin);
    case DType::bf16:
      return narrow_bf16(from, count, to.as<Bf16>() + begin);
    default:
      TRIREME_CHECK(is_float(to.dtype));
  }
}

void round_range(DType format, float* values, int64_t count) {
  if (format == DType::f32) return;
  TRIREME_CHECK((format == DType::bf16 || format == DType::f16));
  with_rounding(format, [=](const auto& round) { map(round, count, values, values); });
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {

HWY_EXPORT(widen_range);
HWY_EXPORT(narrow_range);
HWY_EXPORT(round_range);

void widen(const TensorView& from, int64_t begin, int64_t count, float* to) {
  HWY_DYNAMIC_DISPATCH(widen_range)(from, begin, count, to);
}
void narrow(const float* from, int64_t count, const TensorView& to, int64_t begin) {
  HWY_DYNAMIC_DISPATCH(narrow_range)(from, count, to, begin);
}
void round_to(DType format, float* values, int64_t count) {
  HWY_DYNAMIC_DISPATCH(round_range)(format, values, count);
}

}  // namespace trireme::cpu
#endif
