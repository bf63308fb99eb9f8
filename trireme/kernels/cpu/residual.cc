// add_scaled, residual and renew: element by element, one pass over memory.
#include <cmath>
#include <cstring>

#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/grain.h"

namespace trireme::cpu {
namespace {

// z[i] = F(x[i], y[i], s). z may be x or y.
template <typename F>
void map_scaled(const KernelContext& context, const F& f) {
  const float *x = context.in<float>(0), *y = context.in<float>(1);
  const float s = *context.in<float>(2);
  float* z = context.out<float>(0);
  pool_of(context).parallel_for(context.outputs[0].elements(), kElementGrain,
                                [&](int64_t begin, int64_t end) {
                                  for (int64_t i = begin; i < end; ++i) z[i] = f(x[i], y[i], s);
                                });
}

void add_scaled(const KernelContext& context) {
  map_scaled(context, [](float x, float y, float s) { return x + s * y; });
}

void residual(const KernelContext& context) {
  map_scaled(context, [](float x, float sent, float s) { return (x - sent) / s; });
}

void renew(const KernelContext& context) {
  const int from = std::isfinite(*context.in<float>(2)) ? 1 : 0;
  const float* x = context.in<float>(from);
  float* y = context.out<float>(0);
  if (x == y) return;
  pool_of(context).parallel_for(
      context.outputs[0].elements(), kElementGrain,
      [&](int64_t begin, int64_t end) { std::memcpy(y + begin, x + begin, (end - begin) * sizeof(float)); });
}

}  // namespace

void add_residual(KernelTable& table) {
  table.add("add_scaled", DType::f32, {add_scaled});
  table.add("residual", DType::f32, {residual});
  table.add("renew", DType::f32, {renew});
}

}  // namespace trireme::cpu
