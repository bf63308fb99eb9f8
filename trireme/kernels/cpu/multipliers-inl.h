// Some floats that lie side by side in memory, each of which multiplies whole vectors: a column of a matrix,
// the weights of some filters. Include it after hwy/highway.h.
//
// Arm's fmla takes its multiplier from a lane of a register, so they are loaded as vectors there: a broadcast
// from memory would need an arithmetic slot, and one register each. Elsewhere a broadcast from memory is a
// plain load.
#if defined(TRIREME_KERNELS_CPU_MULTIPLIERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_MULTIPLIERS_INL_H_
#undef TRIREME_KERNELS_CPU_MULTIPLIERS_INL_H_
#else
#define TRIREME_KERNELS_CPU_MULTIPLIERS_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {

template <size_t kCount>
class Multipliers {
  using D = hwy::HWY_NAMESPACE::ScalableTag<float>;
  using V = hwy::HWY_NAMESPACE::VFromD<D>;

#if HWY_ARCH_ARM
  static constexpr size_t kLanes = 4;
  static_assert(kCount <= 2 * kLanes);

 public:
  // Reads nothing past the last one: where they are not whole vectors, the second overlaps the first.
  HWY_INLINE explicit Multipliers(const float* HWY_RESTRICT from) : from_(from) {
    if constexpr (kCount >= kLanes) low_ = hwy::HWY_NAMESPACE::LoadU(D(), from);
    if constexpr (kCount > kLanes) high_ = hwy::HWY_NAMESPACE::LoadU(D(), from + kCount - kLanes);
  }
  template <size_t kIndex>
  HWY_INLINE V all() const {
    if constexpr (kCount < kLanes) {
      return hwy::HWY_NAMESPACE::Set(D(), from_[kIndex]);
    } else if constexpr (kIndex < kLanes) {
      return hwy::HWY_NAMESPACE::Broadcast<kIndex>(low_);
    } else {
      return hwy::HWY_NAMESPACE::Broadcast<kIndex + kLanes - kCount>(high_);
    }
  }

 private:
  const float* from_;
  V low_, high_;
#else

 public:
  HWY_INLINE explicit Multipliers(const float* HWY_RESTRICT from) : from_(from) {}
  // A vector of copies of one of them.
  template <size_t kIndex>
  HWY_INLINE V all() const {
    return hwy::HWY_NAMESPACE::Set(D(), from_[kIndex]);
  }

 private:
  const float* HWY_RESTRICT from_;
#endif
};

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_MULTIPLIERS_INL_H_
