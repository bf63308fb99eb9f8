// max_pool2d and its gradient. Padding never wins: a window's maximum is taken over its real elements.
// A NaN in the window is the maximum, so that it is not lost.
#include <algorithm>
#include <cmath>
#include <limits>

#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/pool_window.h"
#include "trireme/kernels/kernel.h"

namespace trireme::cpu {
namespace {

bool wins(float candidate, float best) {
  return candidate > best || std::isnan(candidate);
}

void max_pool2d(const KernelContext& context) {
  const PoolWindow window(context.inputs[0].shape, context.attrs);
  for_each_plane(pool_of(context), window, [&](int64_t plane) {
    const float* const x = context.in<float>(0) + plane * window.in_plane();
    float* y = context.out<float>(0) + plane * window.out_plane();
    window.for_each([&](const Span& rows, const Span& columns) {
      float best = -std::numeric_limits<float>::infinity();
      for (int64_t row = rows.first; row < rows.last; ++row) {
        for (int64_t column = columns.first; column < columns.last; ++column) {
          const float value = x[row * window.x.size + column];
          if (wins(value, best)) best = value;
        }
      }
      *y++ = best;
    });
  });
}

// Windows overlap, so a plane is done by one thread, window after window.
void max_pool2d_grad(const KernelContext& context) {
  const PoolWindow window(context.inputs[1].shape, context.attrs);
  for_each_plane(pool_of(context), window, [&](int64_t plane) {
    const float* dy = context.in<float>(0) + plane * window.out_plane();
    const float* const x = context.in<float>(1) + plane * window.in_plane();
    const float* y = context.in<float>(2) + plane * window.out_plane();
    float* const dx = context.out<float>(0) + plane * window.in_plane();
    std::fill_n(dx, window.in_plane(), 0.0f);
    window.for_each([&](const Span& rows, const Span& columns) {
      const float gradient = *dy++, best = *y++;
      for (int64_t row = rows.first; row < rows.last; ++row) {
        for (int64_t column = columns.first; column < columns.last; ++column) {
          const int64_t at = row * window.x.size + column;
          if (x[at] != best && !(std::isnan(best) && std::isnan(x[at]))) continue;
          dx[at] += gradient;
          return;
        }
      }
    });
  });
}

}  // namespace

void add_max_pool2d(KernelTable& table) {
  table.add("max_pool2d", DType::f32, {max_pool2d});
  table.add("max_pool2d_grad", DType::f32, {max_pool2d_grad});
}

}  // namespace trireme::cpu
