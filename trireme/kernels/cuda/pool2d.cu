// Pooling: a thread takes one result. In the gradients that is one element of the image, which gathers from
// the windows that hold it, in order, so that nothing is added atomically.
#include "trireme/kernels/cuda/device.cuh"
#include "trireme/kernels/cuda/window.h"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256;

struct Pool {
  int64_t planes;
  Window y, x;
  Pool(const Shape& input, const Attrs& attrs)
      : planes(input[0] * input[1]),
        y(window_dim(attrs, 0, input[2], attrs.integers("kernel").at(0))),
        x(window_dim(attrs, 1, input[3], attrs.integers("kernel").at(1))) {}
  __host__ __device__ int64_t in_plane() const { return int64_t{y.size} * x.size; }
  __host__ __device__ int64_t out_plane() const { return int64_t{y.out} * x.out; }
};

struct Range {
  int first, last;
};
// The elements of the image that output `at` looks at.
__device__ Range elements_of(const Window& w, int at) {
  const int first = at * w.stride - w.padding;
  return {max(first, 0), min(first + w.kernel, w.size)};
}
// The outputs that look at element `at`.
__device__ Range outputs_of(const Window& w, int at) {
  const int last = at + w.padding;
  const int first = last - w.kernel + 1;
  return {first <= 0 ? 0 : (first + w.stride - 1) / w.stride, min(last / w.stride + 1, w.out)};
}

template <typename T>
__global__ void max_pool_kernel(Pool p, const T* x, T* y) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= p.planes * p.out_plane()) return;
  const int64_t plane = i / p.out_plane();
  const int at = static_cast<int>(i % p.out_plane());
  const Range rows = elements_of(p.y, at / p.x.out), columns = elements_of(p.x, at % p.x.out);
  float best = -INFINITY;
  for (int row = rows.first; row < rows.last; ++row) {
    for (int column = columns.first; column < columns.last; ++column)
      best = Max()(widen(x[plane * p.in_plane() + int64_t{row} * p.x.size + column]), best);
  }
  y[i] = narrow<T>(best);
}

// Whether (row, column) is the first element of the window that is its maximum.
template <typename T>
__device__ bool is_first(const T* x, const Pool& p, const Range& rows, const Range& columns, float best,
                         int row, int column) {
  for (int r = rows.first; r < rows.last; ++r) {
    for (int c = columns.first; c < columns.last; ++c) {
      const float value = widen(x[int64_t{r} * p.x.size + c]);
      if (value == best || (isnan(best) && isnan(value))) return r == row && c == column;
    }
  }
  return false;
}

template <typename T>
__global__ void max_pool_grad_kernel(Pool p, const T* dy, const T* x, const T* y, T* dx) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= p.planes * p.in_plane()) return;
  const int64_t plane = i / p.in_plane();
  const int at = static_cast<int>(i % p.in_plane()), row = at / p.x.size, column = at % p.x.size;
  const Range outs_y = outputs_of(p.y, row), outs_x = outputs_of(p.x, column);
  const float mine = widen(x[i]);
  float sum = 0;
  for (int oy = outs_y.first; oy < outs_y.last; ++oy) {
    for (int ox = outs_x.first; ox < outs_x.last; ++ox) {
      const int64_t o = plane * p.out_plane() + int64_t{oy} * p.x.out + ox;
      const float best = widen(y[o]);
      if (mine != best && !(isnan(mine) && isnan(best))) continue;  // most are not, and need no search
      if (is_first(x + plane * p.in_plane(), p, elements_of(p.y, oy), elements_of(p.x, ox), best, row,
                   column))
        sum += widen(dy[o]);
    }
  }
  dx[i] = narrow<T>(sum);
}

__device__ float count_of(const Range& rows, const Range& columns) {
  return static_cast<float>(max(1, max(0, rows.last - rows.first) * max(0, columns.last - columns.first)));
}

template <typename T>
__global__ void avg_pool_kernel(Pool p, const T* x, T* y) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= p.planes * p.out_plane()) return;
  const int64_t plane = i / p.out_plane();
  const int at = static_cast<int>(i % p.out_plane());
  const Range rows = elements_of(p.y, at / p.x.out), columns = elements_of(p.x, at % p.x.out);
  float sum = 0;
  for (int row = rows.first; row < rows.last; ++row) {
    for (int column = columns.first; column < columns.last; ++column)
      sum += widen(x[plane * p.in_plane() + int64_t{row} * p.x.size + column]);
  }
  y[i] = narrow<T>(sum / count_of(rows, columns));
}

template <typename T>
__global__ void avg_pool_grad_kernel(Pool p, const T* dy, T* dx) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= p.planes * p.in_plane()) return;
  const int64_t plane = i / p.in_plane();
  const int at = static_cast<int>(i % p.in_plane());
  const Range outs_y = outputs_of(p.y, at / p.x.size), outs_x = outputs_of(p.x, at % p.x.size);
  float sum = 0;
  for (int oy = outs_y.first; oy < outs_y.last; ++oy) {
    for (int ox = outs_x.first; ox < outs_x.last; ++ox)
      sum += widen(dy[plane * p.out_plane() + int64_t{oy} * p.x.out + ox]) /
             count_of(elements_of(p.y, oy), elements_of(p.x, ox));
  }
  dx[i] = narrow<T>(sum);
}

// Calls launch(pool, format, blocks) with a thread for each of `results` elements of the output.
template <typename Launch>
void pool(const KernelContext& context, const Shape& image, const Launch& launch) {
  const int64_t results = context.outputs[0].elements();
  if (results == 0) return;
  with_format(context.outputs[0].dtype, [&](auto zero) {
    launch(Pool(image, context.attrs), zero, blocks(ceil_div(results, kThreads)));
  });
}

void max_pool2d(const KernelContext& context) {
  pool(context, context.inputs[0].shape, [&](const Pool& p, auto zero, unsigned grid) {
    using T = decltype(zero);
    max_pool_kernel<<<grid, kThreads, 0, stream_of(context)>>>(p, in<T>(context, 0), out<T>(context, 0));
  });
}
void max_pool2d_grad(const KernelContext& context) {
  pool(context, context.inputs[1].shape, [&](const Pool& p, auto zero, unsigned grid) {
    using T = decltype(zero);
    max_pool_grad_kernel<<<grid, kThreads, 0, stream_of(context)>>>(p, in<T>(context, 0), in<T>(context, 1),
                                                                    in<T>(context, 2), out<T>(context, 0));
  });
}
void avg_pool2d(const KernelContext& context) {
  pool(context, context.inputs[0].shape, [&](const Pool& p, auto zero, unsigned grid) {
    using T = decltype(zero);
    avg_pool_kernel<<<grid, kThreads, 0, stream_of(context)>>>(p, in<T>(context, 0), out<T>(context, 0));
  });
}
void avg_pool2d_grad(const KernelContext& context) {
  pool(context, context.outputs[0].shape, [&](const Pool& p, auto zero, unsigned grid) {
    using T = decltype(zero);
    avg_pool_grad_kernel<<<grid, kThreads, 0, stream_of(context)>>>(p, in<T>(context, 0), out<T>(context, 0));
  });
}

}  // namespace

void add_pool2d(KernelTable& table) {
  add_for_all_formats(table, "avg_pool2d", {avg_pool2d});
  add_for_all_formats(table, "avg_pool2d_grad", {avg_pool2d_grad});
  add_for_all_formats(table, "max_pool2d", {max_pool2d});
  add_for_all_formats(table, "max_pool2d_grad", {max_pool2d_grad});
}

}  // namespace trireme::cuda
