// One pass over all tensors of an optimizer update.
#if defined(TRIREME_KERNELS_CPU_UPDATE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIREME_KERNELS_CPU_UPDATE_INL_H_
#undef TRIREME_KERNELS_CPU_UPDATE_INL_H_
#else
#define TRIREME_KERNELS_CPU_UPDATE_INL_H_
#endif

#include <algorithm>
#include <array>

#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/convert.h"
#include "trireme/kernels/cpu/grain.h"
#include "trireme/kernels/cpu/map-inl.h"
#include "trireme/kernels/kernel.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {

template <size_t kInputs, size_t kOutputs, class F>
void update_range(const F& f, std::array<const float*, kInputs> in, std::array<float*, kOutputs> out,
                  int64_t count) {
  for_vectors(count, [&](int64_t i, auto access) TRIREME_VECTOR_BODY {
    VF32 x[kInputs], y[kOutputs];
    for (size_t k = 0; k < kInputs; ++k) x[k] = access.load(in[k] + i);
    f(F32(), x, y);
    for (size_t k = 0; k < kOutputs; ++k) access.store(y[k], out[k] + i);
  });
}

// Calls f(d, in, out) on vectors of the first kInputs inputs and the first kOutputs outputs of the
// node, all of one shape and f32, but for the second input, the gradient, which may be in 16 bits: that is
// widened in stretches that stay in the cache. Outputs may share memory with inputs.
template <size_t kInputs, size_t kOutputs, class F>
void update(const KernelContext& context, const F& f) {
  constexpr size_t kGradient = 1;
  constexpr int64_t kStretch = 2048;
  const TensorView& gradient = context.inputs[kGradient];
  const bool is_half = gradient.dtype != DType::f32;
  pool_of(context).parallel_for(context.inputs[0].elements(), kElementGrain, [&](int64_t begin, int64_t end) {
    alignas(64) float widened[kStretch];
    for (int64_t at = begin; at < end;) {
      const int64_t count = is_half ? std::min(kStretch, end - at) : end - at;
      std::array<const float*, kInputs> in;
      std::array<float*, kOutputs> out;
      for (size_t i = 0; i < kInputs; ++i)
        in[i] = i == kGradient && is_half ? widened : context.in<float>(static_cast<int>(i)) + at;
      for (size_t i = 0; i < kOutputs; ++i) out[i] = context.out<float>(static_cast<int>(i)) + at;
      if (is_half) widen(gradient, at, count, widened);
      update_range(f, in, out, count);
      at += count;
    }
  });
}

// A skipped step: each output is the input of the given number.
template <size_t kOutputs>
void keep(const KernelContext& context, const std::array<int, kOutputs>& sources) {
  pool_of(context).parallel_for(context.inputs[0].elements(), kElementGrain, [&](int64_t begin, int64_t end) {
    for (size_t i = 0; i < kOutputs; ++i) {
      const float* from = static_cast<const float*>(context.inputs[sources[i]].data);
      float* to = static_cast<float*>(context.outputs[i].data);
      if (from != to) std::memcpy(to + begin, from + begin, (end - begin) * sizeof(float));
    }
  });
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIREME_KERNELS_CPU_UPDATE_INL_H_
