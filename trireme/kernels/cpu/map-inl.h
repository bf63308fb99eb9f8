// Loops over f32 arrays for kernels written with Highway. The body of a loop sees whole vectors and, at the
// end, one that is filled in part. The tail of an array runs through the same vector code as the rest, so the
// bits of an element do not depend on where it lies.
#if defined(TRIREME_KERNELS_CPU_MAP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_MAP_INL_H_
#undef TRIREME_KERNELS_CPU_MAP_INL_H_
#else
#define TRIREME_KERNELS_CPU_MAP_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
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

// How the body of for_vectors reaches memory: whole vectors, or the first `count` lanes of the last one.
struct WholeVector {
  HWY_INLINE VF32 load(const float* p) const { return hn::LoadU(F32(), p); }
  HWY_INLINE void store(VF32 v, float* p) const { hn::StoreU(v, F32(), p); }
  HWY_INLINE VF32 keep(VF32 next, VF32) const { return next; }  // for totals: see PartVector
};
struct PartVector {
  int64_t count;
  HWY_INLINE VF32 load(const float* p) const { return load_part(F32(), p, count); }
  HWY_INLINE void store(VF32 v, float* p) const { store_part(v, F32(), p, count); }
  // `next` in the lanes that hold elements, `before` in the others.
  HWY_INLINE VF32 keep(VF32 next, VF32 before) const {
    return hn::IfThenElse(hn::FirstN(F32(), count), next, before);
  }
};

// Lambdas that hold vector code do not inherit the target of the file, and must be inlined for totals
// they capture to stay in registers.
#undef TRIREME_VECTOR_BODY
#define TRIREME_VECTOR_BODY HWY_ATTR __attribute__((always_inline))

// Calls body(i, access) for each vector of an array of `count` elements; i is its first element.
template <class Body>
HWY_INLINE void for_vectors(int64_t count, const Body& body) {
  const int64_t lanes = hn::Lanes(F32());
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(i, WholeVector());
  if (i < count) body(i, PartVector{count - i});
}

HWY_INLINE float sum_of_lanes(VF32 v) {
  return hn::GetLane(hn::SumOfLanes(F32(), v));
}
HWY_INLINE float max_of_lanes(VF32 v) {
  return hn::GetLane(hn::MaxOfLanes(F32(), v));
}

// y[i] = f(d, x0[i], x1[i]…). y may be one of the inputs.
template <class F, class... X>
void map(const F& f, int64_t count, float* y, const X*... x) {
  for_vectors(count, [&](int64_t i, auto access)
                         TRIREME_VECTOR_BODY { access.store(f(F32(), access.load(x + i)...), y + i); });
}

struct AddVectors {
  VF32 operator()(F32, VF32 a, VF32 b) const { return hn::Add(a, b); }
};

// f with a constant second operand.
template <class F>
struct WithScalar {
  float b;
  VF32 operator()(F32 d, VF32 a) const { return F()(d, a, hn::Set(d, b)); }
};

// Loops over count elements of y from a, where b's element for a[0] is b[position % period].
template <class F>
void map_repeated(int64_t count, float* y, const float* a, const float* b, int64_t position, int64_t period) {
  if (period == 1) return map(WithScalar<F>{*b}, count, y, a);
  for (int64_t i = 0; i < count;) {
    const int64_t start = (position + i) % period;
    const int64_t length = std::min(period - start, count - i);
    map(F(), length, y + i, a + i, b + start);
    i += length;
  }
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_MAP_INL_H_
