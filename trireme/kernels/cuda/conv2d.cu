// Convolution and its gradients: cuDNN's where it is there and has a plan, or products of matrices: patches
// of the image are laid out as columns (im2col), some images at a time so that they stay small. Forward and
// for the input each image is a product of its own; for the weight the columns of all images stand side by
// side and one product sums over them.
#include <algorithm>

#include "trireme/kernels/cuda/conv.h"
#include "trireme/kernels/cuda/cudnn_convolution.h"
#include "trireme/kernels/cuda/device.cuh"
#include "trireme/kernels/cuda/gemm.h"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostColumnBytes = int64_t{256} << 20;

int64_t images_at_once(const Conv& conv, DType dtype) {
  const int64_t each =
      std::max<int64_t>(1, conv.patch() * conv.out_plane() * static_cast<int64_t>(size_of(dtype)));
  return std::clamp<int64_t>(kMostColumnBytes / each, 1, std::max<int64_t>(1, conv.images));
}
int64_t column_bytes(const Conv& conv, DType dtype) {
  const int64_t bytes =
      images_at_once(conv, dtype) * conv.patch() * conv.out_plane() * static_cast<int64_t>(size_of(dtype));
  return ceil_div(bytes, 256) * 256;
}

// Element (row, p) of image n's columns is columns[row · row_stride + n · image_stride + p].
struct Columns {
  int64_t images, row_stride, image_stride;
};

template <typename T>
__global__ void im2col(Conv conv, Columns columns, const T* image, T* to) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t rows = conv.channels * conv.taps(), plane = conv.out_plane();
  if (i >= columns.images * rows * plane) return;
  const int p = static_cast<int>(i % plane);
  const int64_t row = i / plane % rows, n = i / (plane * rows);
  const int tap = static_cast<int>(row % conv.taps());
  const int64_t channel = row / conv.taps();
  const int iy = p / conv.x.out * conv.y.stride - conv.y.padding + tap / conv.x.kernel * conv.y.dilation;
  const int ix = p % conv.x.out * conv.x.stride - conv.x.padding + tap % conv.x.kernel * conv.x.dilation;
  T value = narrow<T>(0);
  if (iy >= 0 && iy < conv.y.size && ix >= 0 && ix < conv.x.size)
    value =
        image[(n * conv.groups * conv.channels + channel) * conv.in_plane() + int64_t{iy} * conv.x.size + ix];
  to[row * columns.row_stride + n * columns.image_stride + p] = value;
}

// The taps that an element of the image took part in, added up in order.
template <typename T>
__global__ void col2im(Conv conv, Columns columns, const T* from, T* image) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= columns.images * conv.channels * conv.in_plane()) return;
  const int at = static_cast<int>(i % conv.in_plane());
  const int64_t channel = i / conv.in_plane() % conv.channels, n = i / (conv.in_plane() * conv.channels);
  const int iy = at / conv.x.size, ix = at % conv.x.size;
  float sum = 0;
  for (int ky = 0; ky < conv.y.kernel; ++ky) {
    const int y = iy + conv.y.padding - ky * conv.y.dilation;
    if (y < 0 || y % conv.y.stride != 0 || y / conv.y.stride >= conv.y.out) continue;
    for (int kx = 0; kx < conv.x.kernel; ++kx) {
      const int x = ix + conv.x.padding - kx * conv.x.dilation;
      if (x < 0 || x % conv.x.stride != 0 || x / conv.x.stride >= conv.x.out) continue;
      const int64_t row = channel * conv.taps() + ky * conv.x.kernel + kx;
      sum += widen(from[row * columns.row_stride + n * columns.image_stride +
                        int64_t{y / conv.y.stride} * conv.x.out + x / conv.x.stride]);
    }
  }
  image[(n * conv.groups * conv.channels + channel) * conv.in_plane() + at] = narrow<T>(sum);
}

// The filters of a group, image after image, as rows over all images: y[n][o][p] to rows[o][n][p].
template <typename T>
__global__ void rows_of_filters(Conv conv, int64_t images, const T* y, T* rows) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, plane = conv.out_plane();
  if (i >= images * conv.filters * plane) return;
  const int64_t p = i % plane, n = i / plane % images, o = i / (plane * images);
  rows[i] = y[(n * conv.groups * conv.filters + o) * plane + p];
}

template <typename T>
__global__ void narrow_kernel(const float* from, T* to, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) to[i] = narrow<T>(from[i]);
}

unsigned grid_of(int64_t count) {
  return blocks(ceil_div(count, kThreads));
}

// y = weight · columns for each image, or columns = weightᵀ · y.
Gemm image_product(const Conv& conv, DType dtype, Transpose weight) {
  Gemm g;
  const bool forward = weight == Transpose::kNo;
  g.dtype = g.c_dtype = dtype;
  g.m = forward ? conv.filters : conv.patch();
  g.k = forward ? conv.patch() : conv.filters;
  g.n = conv.out_plane();
  g.a.stride = conv.patch();
  g.a.transpose = weight;
  g.b.stride = g.c_stride = g.n;
  return g;
}
// weight = y · columnsᵀ over all images.
Gemm weight_product(const Conv& conv, DType dtype, int64_t images) {
  Gemm g;
  g.dtype = dtype;
  g.m = conv.filters;
  g.n = conv.patch();
  g.k = images * conv.out_plane();
  g.a.stride = g.b.stride = g.k;
  g.b.transpose = Transpose::kYes;
  g.c_stride = g.n;
  return g;
}

// Calls body(group, first image, images) for pieces that fit the workspace.
template <typename Body>
void for_each_piece(const Conv& conv, DType dtype, const Body& body) {
  const int64_t at_once = images_at_once(conv, dtype);
  for (int64_t group = 0; group < conv.groups; ++group) {
    for (int64_t first = 0; first < conv.images; first += at_once)
      body(group, first, std::min(at_once, conv.images - first));
  }
}

void conv2d(const KernelContext& context) {
  const Conv conv(context.inputs[0].shape, context.inputs[1].shape, context.attrs);
  const DType dtype = context.inputs[0].dtype;
  if (context.outputs[0].elements() == 0) return;
  if (cudnn_convolution(Convolved::kOutput, conv, dtype, Channels::kFirst,
                        {context.inputs[0].data, context.inputs[1].data, context.outputs[0].data},
                        context_of(context), context.workspace))
    return;
  std::byte* const product_workspace = context.workspace + column_bytes(conv, dtype);
  with_format(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* const columns = reinterpret_cast<T*>(context.workspace);
    for_each_piece(conv, dtype, [&](int64_t group, int64_t first, int64_t images) {
      const int64_t all_channels = conv.groups * conv.channels, all_filters = conv.groups * conv.filters;
      const T* const x = in<T>(context, 0) + (first * all_channels + group * conv.channels) * conv.in_plane();
      Gemm g = image_product(conv, dtype, Transpose::kNo);
      g.batch = images;
      g.a.data = in<T>(context, 1) + group * conv.filters * conv.patch();
      g.b.data = conv.is_pointwise() ? x : columns;
      g.b.batch_stride = conv.is_pointwise() ? all_channels * conv.in_plane() : conv.patch() * g.n;
      g.c = out<T>(context, 0) + (first * all_filters + group * conv.filters) * g.n;
      g.c_batch_stride = all_filters * g.n;
      if (!conv.is_pointwise())
        im2col<<<grid_of(images * conv.patch() * g.n), kThreads, 0, stream_of(context)>>>(
            conv, Columns{images, g.n, conv.patch() * g.n}, x, columns);
      multiply(g, context_of(context), product_workspace);
    });
  });
}

void conv2d_grad_input(const KernelContext& context) {
  const Conv conv(context.outputs[0].shape, context.inputs[1].shape, context.attrs);
  const DType dtype = context.inputs[0].dtype;
  if (context.outputs[0].elements() == 0) return;
  if (cudnn_convolution(Convolved::kInput, conv, dtype, Channels::kFirst,
                        {context.outputs[0].data, context.inputs[1].data, context.inputs[0].data},
                        context_of(context), context.workspace))
    return;
  std::byte* const product_workspace = context.workspace + column_bytes(conv, dtype);
  with_format(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* const columns = reinterpret_cast<T*>(context.workspace);
    for_each_piece(conv, dtype, [&](int64_t group, int64_t first, int64_t images) {
      const int64_t all_channels = conv.groups * conv.channels, all_filters = conv.groups * conv.filters;
      T* const dx = out<T>(context, 0) + (first * all_channels + group * conv.channels) * conv.in_plane();
      Gemm g = image_product(conv, dtype, Transpose::kYes);
      g.batch = images;
      g.a.data = in<T>(context, 1) + group * conv.filters * conv.patch();
      g.b.data = in<T>(context, 0) + (first * all_filters + group * conv.filters) * g.n;
      g.b.batch_stride = all_filters * g.n;
      g.c = conv.is_pointwise() ? dx : columns;
      g.c_batch_stride = conv.is_pointwise() ? all_channels * conv.in_plane() : conv.patch() * g.n;
      multiply(g, context_of(context), product_workspace);
      if (!conv.is_pointwise())
        col2im<<<grid_of(images * conv.channels * conv.in_plane()), kThreads, 0, stream_of(context)>>>(
            conv, Columns{images, g.n, conv.patch() * g.n}, columns, dx);
    });
  });
}

int64_t rows_bytes(const Conv& conv, DType dtype) {
  const int64_t elements = images_at_once(conv, dtype) * conv.filters * conv.out_plane();
  return ceil_div(elements * static_cast<int64_t>(size_of(dtype)), 256) * 256;
}
int64_t sum_bytes(const Conv& conv, DType dtype) {
  return dtype == DType::f32 ? 0 : ceil_div(conv.filters * conv.patch() * 4, 256) * 256;
}

// Parts of the sum are added in f32, whatever the weight is.
void conv2d_grad_weight(const KernelContext& context) {
  const Conv conv(context.inputs[1].shape, context.outputs[0].shape, context.attrs);
  const DType dtype = context.inputs[0].dtype;
  if (context.outputs[0].elements() == 0) return;
  const cudaStream_t stream = stream_of(context);
  if (conv.images == 0) {
    check(cudaMemsetAsync(context.outputs[0].data, 0, context.outputs[0].bytes(), stream),
          "a fill with zeros");
    return;
  }
  if (cudnn_convolution(Convolved::kWeight, conv, dtype, Channels::kFirst,
                        {context.inputs[1].data, context.outputs[0].data, context.inputs[0].data},
                        context_of(context), context.workspace))
    return;
  std::byte* const rows_at = context.workspace + column_bytes(conv, dtype);
  std::byte* const sum_at = rows_at + rows_bytes(conv, dtype);
  std::byte* const product_workspace = sum_at + sum_bytes(conv, dtype);
  with_format(dtype, [&](auto zero) {
    using T = decltype(zero);
    T *const columns = reinterpret_cast<T*>(context.workspace), *const rows = reinterpret_cast<T*>(rows_at);
    for_each_piece(conv, dtype, [&](int64_t group, int64_t first, int64_t images) {
      const int64_t all_channels = conv.groups * conv.channels, all_filters = conv.groups * conv.filters;
      const T* const x = in<T>(context, 1) + (first * all_channels + group * conv.channels) * conv.in_plane();
      const T* const dy = in<T>(context, 0) + (first * all_filters + group * conv.filters) * conv.out_plane();
      T* const dw = out<T>(context, 0) + group * conv.filters * conv.patch();
      Gemm g = weight_product(conv, dtype, images);
      im2col<<<grid_of(images * conv.patch() * conv.out_plane()), kThreads, 0, stream>>>(
          conv, Columns{images, g.k, conv.out_plane()}, x, columns);
      rows_of_filters<<<grid_of(conv.filters * g.k), kThreads, 0, stream>>>(conv, images, dy, rows);
      float* sum = reinterpret_cast<float*>(sum_at);
      if constexpr (std::is_same_v<T, float>) sum = dw;
      g.a.data = rows;
      g.b.data = columns;
      g.c = sum;
      g.residual = first > 0 ? sum : nullptr;
      multiply(g, context_of(context), product_workspace);
      if constexpr (!std::is_same_v<T, float>) {
        if (first + images == conv.images)
          narrow_kernel<<<grid_of(g.m * g.n), kThreads, 0, stream>>>(sum, dw, g.m * g.n);
      }
    });
  });
}

size_t image_workspace(const Conv& conv, DType dtype, Convolved made) {
  Gemm g = image_product(conv, dtype, made == Convolved::kOutput ? Transpose::kNo : Transpose::kYes);
  g.batch = images_at_once(conv, dtype);
  return std::max(static_cast<size_t>(column_bytes(conv, dtype)) + gemm_workspace_bytes(g),
                  cudnn_convolution_workspace(conv, dtype, Channels::kFirst));
}
size_t conv2d_workspace(const KernelShape& shape) {
  return image_workspace(Conv(shape.inputs[0].shape, shape.inputs[1].shape, shape.attrs),
                         shape.inputs[0].dtype, Convolved::kOutput);
}
size_t grad_input_workspace(const KernelShape& shape) {
  return image_workspace(Conv(shape.outputs[0].shape, shape.inputs[1].shape, shape.attrs),
                         shape.inputs[0].dtype, Convolved::kInput);
}
size_t grad_weight_workspace(const KernelShape& shape) {
  const Conv conv(shape.inputs[1].shape, shape.outputs[0].shape, shape.attrs);
  const DType dtype = shape.inputs[0].dtype;
  const size_t own =
      static_cast<size_t>(column_bytes(conv, dtype) + rows_bytes(conv, dtype) + sum_bytes(conv, dtype)) +
      gemm_workspace_bytes(weight_product(conv, dtype, images_at_once(conv, dtype)));
  return std::max(own, cudnn_convolution_workspace(conv, dtype, Channels::kFirst));
}

}  // namespace

void add_conv2d(KernelTable& table) {
  add_for_all_formats(table, "conv2d", {conv2d, conv2d_workspace});
  add_for_all_formats(table, "conv2d_grad_input", {conv2d_grad_input, grad_input_workspace});
  add_for_all_formats(table, "conv2d_grad_weight", {conv2d_grad_weight, grad_weight_workspace});
}

}  // namespace trireme::cuda
