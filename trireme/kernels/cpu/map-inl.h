// Loops over f32 arrays for kernels written with Highway: map, and loads and stores of the last, partial
// vector. The tail of an array runs through the same vector code as the rest, so the bits of an element
// do not depend on where it lies.
#if defined(TRIREME_KERNELS_CPU_MAP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_MAP_INL_H_
#undef TRIREME_KERNELS_CPU_MAP_INL_H_
#else
#define TRIREME_KERNELS_CPU_MAP_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using VF32 = hn::Vec<F32>;

// The first `count` < Lanes(d) elements at p; the other lanes are zero.
HWY_INLINE VF32 load_part(F32 d, const float* HWY_RESTRICT p, int64_t count) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN float buffer[hn::MaxLanes(d)] = {};
  std::memcpy(buffer, p, count * sizeof(float));
  return hn::Load(d, buffer);
#else
  return hn::MaskedLoad(hn::FirstN(d, count), d, p);
#endif
}

HWY_INLINE void store_part(VF32 v, F32 d, float* HWY_RESTRICT p, int64_t count) {
#if HWY_MEM_OPS_MIGHT_FAULT
  HWY_ALIGN float buffer[hn::MaxLanes(d)];
  hn::Store(v, d, buffer);
  std::memcpy(p, buffer, count * sizeof(float));
#else
  hn::BlendedStore(v, hn::FirstN(d, count), d, p);
#endif
}

// y[i] = f(d, x0[i], x1[i]…). y may be one of the inputs.
template <class F, class... X>
void map(const F& f, int64_t count, float* y, const X*... x) {
  const F32 d;
  const int64_t lanes = hn::Lanes(d);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(f(d, hn::LoadU(d, x + i)...), d, y + i);
  if (i < count) store_part(f(d, load_part(d, x + i, count - i)...), d, y + i, count - i);
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_MAP_INL_H_
