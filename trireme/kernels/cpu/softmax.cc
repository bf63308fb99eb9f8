// softmax over the last dim and its gradient, row by row; a row stays in cache between its passes.
#include <limits>

#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/grain.h"
#include "trireme/kernels/kernel.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/softmax.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first
#include <hwy/highway.h>

#include "trireme/kernels/cpu/map-inl.h"
#include "trireme/kernels/cpu/simd_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace {

void softmax_row(const float* x, float* y, int64_t width) {
  const F32 d;
  VF32 largest = hn::Set(d, -std::numeric_limits<float>::infinity());
  for_vectors(width, [&](int64_t i, auto access) TRIREME_VECTOR_BODY {
    largest = access.keep(hn::Max(largest, access.load(x + i)), largest);
  });
  const VF32 shift = hn::Set(d, max_of_lanes(largest));
  VF32 total = hn::Zero(d);
  for_vectors(width, [&](int64_t i, auto access) TRIREME_VECTOR_BODY {
    const VF32 e = Exp(d, hn::Sub(access.load(x + i), shift));
    access.store(e, y + i);
    total = access.keep(hn::Add(total, e), total);
  });
  const VF32 scale = hn::Set(d, 1.0f / sum_of_lanes(total));
  for_vectors(width, [&](int64_t i, auto access)
                         TRIREME_VECTOR_BODY { access.store(hn::Mul(access.load(y + i), scale), y + i); });
}

void softmax_grad_row(const float* dy, const float* y, float* dx, int64_t width) {
  const F32 d;
  VF32 total = hn::Zero(d);
  for_vectors(width, [&](int64_t i, auto access) TRIREME_VECTOR_BODY {
    total = hn::MulAdd(access.load(dy + i), access.load(y + i), total);
  });
  const VF32 dot = hn::Set(d, sum_of_lanes(total));
  for_vectors(width, [&](int64_t i, auto access) TRIREME_VECTOR_BODY {
    access.store(hn::Mul(access.load(y + i), hn::Sub(access.load(dy + i), dot)), dx + i);
  });
}

template <typename Row>
void for_rows(const KernelContext& context, const Row& row) {
  const Shape& shape = context.outputs[0].shape;
  const int64_t width = shape.back(), rows = shape.elements(0, shape.rank() - 1);
  pool_of(context).parallel_for(rows, row_grain(width), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) row(i * width, width);
  });
}

void softmax(const KernelContext& context) {
  const float* x = context.in<float>(0);
  float* y = context.out<float>(0);
  for_rows(context, [=](int64_t at, int64_t width) { softmax_row(x + at, y + at, width); });
}
void softmax_grad(const KernelContext& context) {
  const float* dy = context.in<float>(0);
  const float* y = context.in<float>(1);
  float* dx = context.out<float>(0);
  for_rows(context, [=](int64_t at, int64_t width) { softmax_grad_row(dy + at, y + at, dx + at, width); });
}

}  // namespace

void add_softmax_kernels(KernelTable& table) {
  table.add("softmax", DType::f32, {softmax});
  table.add("softmax_grad", DType::f32, {softmax_grad});
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {

HWY_EXPORT(add_softmax_kernels);
void add_softmax(KernelTable& table) {
  HWY_DYNAMIC_DISPATCH(add_softmax_kernels)(table);
}

}  // namespace trireme::cpu
#endif
