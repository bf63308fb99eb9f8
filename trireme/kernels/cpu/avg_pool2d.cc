// avg_pool2d and its gradient. The average counts only real elements, not padding.
#include <algorithm>

#include "trireme/kernels/cpu/pool_window.h"
#include "trireme/kernels/kernel.h"

namespace trireme::cpu {
namespace {

void avg_pool2d(const KernelContext& context) {
  const PoolWindow window(context.inputs[0].shape, context.attrs);
  for_each_plane(context.pool, window, [&](int64_t plane) {
    const float* const x = context.in<float>(0) + plane * window.in_plane();
    float* y = context.out<float>(0) + plane * window.out_plane();
    window.for_each([&](const Span& rows, const Span& columns) {
      float sum = 0;
      for (int64_t row = rows.first; row < rows.last; ++row) {
        for (int64_t column = columns.first; column < columns.last; ++column)
          sum += x[row * window.x.size + column];
      }
      *y++ = sum / static_cast<float>(std::max<int64_t>(1, rows.count() * columns.count()));
    });
  });
}

void avg_pool2d_grad(const KernelContext& context) {
  const PoolWindow window(context.outputs[0].shape, context.attrs);
  for_each_plane(context.pool, window, [&](int64_t plane) {
    const float* dy = context.in<float>(0) + plane * window.out_plane();
    float* const dx = context.out<float>(0) + plane * window.in_plane();
    std::fill_n(dx, window.in_plane(), 0.0f);
    window.for_each([&](const Span& rows, const Span& columns) {
      const float share = *dy++ / static_cast<float>(std::max<int64_t>(1, rows.count() * columns.count()));
      for (int64_t row = rows.first; row < rows.last; ++row) {
        for (int64_t column = columns.first; column < columns.last; ++column)
          dx[row * window.x.size + column] += share;
      }
    });
  });
}

}  // namespace

void add_avg_pool2d(KernelTable& table) {
  table.add("avg_pool2d", DType::f32, {avg_pool2d});
  table.add("avg_pool2d_grad", DType::f32, {avg_pool2d_grad});
}

}  // namespace trireme::cpu
