// Copies of short rows, inlined. Included once per Highway target.
#if defined(TRIREME_COPY_ROW_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_COPY_ROW_INL_H_
#undef TRIREME_COPY_ROW_INL_H_
#else
#define TRIREME_COPY_ROW_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace {

// Compilers turn short copying loops into calls of memcpy and memset, which cost more than the few
// vectors of a row; an empty asm statement in the loop keeps them from it.
HWY_INLINE void keep_loop() {
  asm volatile("");
}

template <class Tag>
HWY_INLINE int64_t copy_vectors(Tag d, const float* HWY_RESTRICT from, int64_t first, int64_t count,
                                float* HWY_RESTRICT to) {
  const int64_t lanes = hwy::HWY_NAMESPACE::Lanes(d);
  for (; first + lanes <= count; first += lanes) {
    hwy::HWY_NAMESPACE::StoreU(hwy::HWY_NAMESPACE::LoadU(d, from + first), d, to + first);
    keep_loop();
  }
  return first;
}
HWY_INLINE void copy(const float* HWY_RESTRICT from, int64_t count, float* HWY_RESTRICT to) {
  int64_t i = copy_vectors(hwy::HWY_NAMESPACE::ScalableTag<float>(), from, 0, count, to);
  if (i == count) return;
  i = copy_vectors(hwy::HWY_NAMESPACE::CappedTag<float, 8>(), from, i, count, to);
  i = copy_vectors(hwy::HWY_NAMESPACE::CappedTag<float, 4>(), from, i, count, to);
  for (; i < count; ++i) {
    to[i] = from[i];
    keep_loop();
  }
}

}  // namespace
}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
