// avg_pool2d and its gradient. The average counts only real elements, not padding.
#include <algorithm>

#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/pool_window.h"
#include "trireme/kernels/kernel.h"

namespace trireme::cpu {
namespace {

// Calls visit(outputs, how many real elements each of their windows has) along a row of windows. Between the
// edges windows are whole, and go in one call.
template <typename Visit>
void for_each_count(const PoolWindow& window, const Span& rows, const Visit& visit) {
  const WindowDim& x = window.x;
  const Span whole{PoolWindow::outputs_at(x, 0).first, PoolWindow::outputs_at(x, x.kernel - 1).last};
  for (int64_t j = 0, last = 0; j < x.out(); j = last) {
    last = j == whole.first ? std::max(j + 1, whole.last) : j + 1;
    const int64_t count = rows.count() * PoolWindow::window_of(x, j).count();
    visit(Span{j, last}, static_cast<float>(std::max<int64_t>(1, count)));
  }
}

// Row by row and place by place of the window, so that the innermost loop runs along the outputs.
void avg_pool2d(const KernelContext& context) {
  const PoolWindow window(context.inputs[0].shape, context.attrs);
  for_each_plane(pool_of(context), window, [&](int64_t plane) {
    const float* const x = context.in<float>(0) + plane * window.in_plane();
    float* y = context.out<float>(0) + plane * window.out_plane();
    for (int64_t i = 0; i < window.y.out(); ++i, y += window.x.out()) {
      const Span rows = PoolWindow::window_of(window.y, i);
      std::fill_n(y, window.x.out(), 0.0f);
      for (int64_t row = rows.first; row < rows.last; ++row) {
        for (int64_t tap = 0; tap < window.x.kernel; ++tap) {
          const Span outputs = PoolWindow::outputs_at(window.x, tap);
          const int64_t at = row * window.x.size + tap - window.x.padding;
          for (int64_t j = outputs.first; j < outputs.last; ++j) y[j] += x[at + j * window.x.stride];
        }
      }
      for_each_count(window, rows, [&](const Span& outputs, float count) {
        for (int64_t j = outputs.first; j < outputs.last; ++j) y[j] /= count;
      });
    }
  });
}

void avg_pool2d_grad(const KernelContext& context) {
  const PoolWindow window(context.outputs[0].shape, context.attrs);
  for_each_plane(pool_of(context), window, [&](int64_t plane) {
    const float* dy = context.in<float>(0) + plane * window.out_plane();
    float* const dx = context.out<float>(0) + plane * window.in_plane();
    std::fill_n(dx, window.in_plane(), 0.0f);
    for (int64_t i = 0; i < window.y.out(); ++i, dy += window.x.out()) {
      const Span rows = PoolWindow::window_of(window.y, i);
      for_each_count(window, rows, [&](const Span& counted, float count) {
        for (int64_t row = rows.first; row < rows.last; ++row) {
          for (int64_t tap = 0; tap < window.x.kernel; ++tap) {
            const Span outputs = PoolWindow::outputs_at(window.x, tap);
            const int64_t at = row * window.x.size + tap - window.x.padding;
            const int64_t last = std::min(outputs.last, counted.last);
            for (int64_t j = std::max(outputs.first, counted.first); j < last; ++j)
              dx[at + j * window.x.stride] += dy[j] / count;
          }
        }
      });
    }
  });
}

}  // namespace

void add_avg_pool2d(KernelTable& table) {
  table.add("avg_pool2d", DType::f32, {avg_pool2d});
  table.add("avg_pool2d_grad", DType::f32, {avg_pool2d_grad});
}

}  // namespace trireme::cpu
