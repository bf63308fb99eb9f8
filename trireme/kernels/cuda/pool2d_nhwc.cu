// Maxima over windows of images with channels last: a thread takes a pack of channels of one pixel. The
// gradient finds for each window which of its elements is the first maximum, as a byte, and then gathers for
// each pixel from the windows that chose it, in order, so that nothing is added atomically.
#include "trireme/ir/channels_last.h"
#include "trireme/kernels/composed.h"
#include "trireme/kernels/cuda/device.cuh"
#include "trireme/kernels/cuda/table.h"
#include "trireme/kernels/cuda/window.h"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kNone = 255;  // no element of a window

struct Pool {
  int64_t images;
  int channels;
  Window y, x;
  Pool(const Shape& image, const Attrs& attrs)
      : images(image[0]),
        channels(static_cast<int>(image[3])),
        y(window_dim(attrs, 0, image[1], attrs.integers("kernel").at(0))),
        x(window_dim(attrs, 1, image[2], attrs.integers("kernel").at(1))) {}
  int64_t in_elements() const { return images * y.size * x.size * channels; }
  int64_t out_elements() const { return images * y.out * x.out * channels; }
};

// Which pack this thread takes of an image of rows × columns.
struct Place {
  int64_t image;
  int row, column, channel;
  __device__ Place(int64_t pack, int packs, int rows, int columns, int width) {
    channel = static_cast<int>(pack % packs) * width;
    const int64_t pixel = pack / packs;
    column = static_cast<int>(pixel % columns);
    row = static_cast<int>(pixel / columns % rows);
    image = pixel / columns / rows;
  }
};
__device__ int64_t pixel_at(int64_t image, const Window& y, const Window& x, int row, int column) {
  return (image * y.size + row) * x.size + column;
}

// Calls body(offset of the element's pack, its number in the window) for the elements of the window that lie
// in the image.
template <typename Body>
__device__ __forceinline__ void for_each_tap(const Pool& p, const Place& at, const Body& body) {
  const int top = at.row * p.y.stride - p.y.padding, left = at.column * p.x.stride - p.x.padding;
  for (int i = 0; i < p.y.kernel; ++i) {
    if (top + i < 0 || top + i >= p.y.size) continue;
    for (int j = 0; j < p.x.kernel; ++j) {
      if (left + j < 0 || left + j >= p.x.size) continue;
      body(pixel_at(at.image, p.y, p.x, top + i, left + j) * p.channels + at.channel, i * p.x.kernel + j);
    }
  }
}

template <typename T>
__global__ void max_kernel(Pool p, int64_t packs, const T* x, T* y) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= packs) return;
  const Place at(i, p.channels / kPack<T>, p.y.out, p.x.out, kPack<T>);
  float best[kPack<T>];
#pragma unroll
  for (int j = 0; j < kPack<T>; ++j) best[j] = -INFINITY;
  for_each_tap(p, at, [&](int64_t from, int) {
    const Pack<T> pack = load_pack(x + from);
#pragma unroll
    for (int j = 0; j < kPack<T>; ++j) best[j] = Max()(widen(pack.at[j]), best[j]);
  });
  store_floats(y + i * kPack<T>, best);
}

template <typename T>
struct alignas(kPack<T>) Chosen {
  uint8_t at[kPack<T>];
};

template <typename T>
__global__ void choose_kernel(Pool p, int64_t packs, const T* x, const T* y, Chosen<T>* chosen) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= packs) return;
  const Place at(i, p.channels / kPack<T>, p.y.out, p.x.out, kPack<T>);
  float best[kPack<T>];
  load_floats(y + i * kPack<T>, best);
  Chosen<T> found;
#pragma unroll
  for (int j = 0; j < kPack<T>; ++j) found.at[j] = kNone;
  for_each_tap(p, at, [&](int64_t from, int number) {
    const Pack<T> pack = load_pack(x + from);
#pragma unroll
    for (int j = 0; j < kPack<T>; ++j) {
      const float value = widen(pack.at[j]);
      const bool same = value == best[j] || (isnan(value) && isnan(best[j]));
      if (found.at[j] == kNone && same) found.at[j] = static_cast<uint8_t>(number);
    }
  });
  chosen[i] = found;
}

template <typename T>
__global__ void max_grad_kernel(Pool p, int64_t packs, const T* dy, const Chosen<T>* chosen, T* dx) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= packs) return;
  const int of_pixel = p.channels / kPack<T>;
  const Place at(i, of_pixel, p.y.size, p.x.size, kPack<T>);
  float sum[kPack<T>] = {};
  // The windows that hold the pixel.
  const auto first = [](const Window& w, int place) {
    const int begin = place + w.padding - w.kernel + 1;
    return begin <= 0 ? 0 : (begin + w.stride - 1) / w.stride;
  };
  for (int row = first(p.y, at.row); row < p.y.out && row * p.y.stride <= at.row + p.y.padding; ++row) {
    for (int column = first(p.x, at.column);
         column < p.x.out && column * p.x.stride <= at.column + p.x.padding; ++column) {
      const int number = (at.row + p.y.padding - row * p.y.stride) * p.x.kernel + at.column + p.x.padding -
                         column * p.x.stride;
      const int64_t window =
          ((at.image * p.y.out + row) * p.x.out + column) * of_pixel + at.channel / kPack<T>;
      const Chosen<T> which = chosen[window];
      const Pack<T> pack = load_pack(dy + window * kPack<T>);
#pragma unroll
      for (int j = 0; j < kPack<T>; ++j) sum[j] += which.at[j] == number ? widen(pack.at[j]) : 0;
    }
  }
  store_floats(dx + i * kPack<T>, sum);
}

using Apart = ComposedKernel<cuda_kernels, kMaxPool2dNhwc>;
using ApartGrad = ComposedKernel<cuda_kernels, kMaxPool2dNhwcGrad>;

bool takes(const Shape& image, DType dtype, const Attrs& attrs) {
  const std::vector<int64_t>& kernel = attrs.integers("kernel");
  return image.elements() > 0 && image[3] % (16 / static_cast<int64_t>(size_of(dtype))) == 0 &&
         kernel[0] < kNone && kernel[0] * kernel[1] < kNone;
}

void max_pool2d_nhwc(const KernelContext& context) {
  const Shape& image = context.inputs[0].shape;
  if (!takes(image, context.inputs[0].dtype, context.attrs)) return Apart::run(context);
  const Pool p(image, context.attrs);
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const int64_t packs = p.out_elements() / kPack<T>;
    max_kernel<<<blocks(ceil_div(packs, kThreads)), kThreads, 0, stream_of(context)>>>(
        p, packs, in<T>(context, 0), out<T>(context, 0));
  });
}

void max_pool2d_nhwc_grad(const KernelContext& context) {
  const Shape& image = context.inputs[1].shape;
  if (!takes(image, context.inputs[1].dtype, context.attrs)) return ApartGrad::run(context);
  const Pool p(image, context.attrs);
  with_format(context.inputs[1].dtype, [&](auto zero) {
    using T = decltype(zero);
    Chosen<T>* const chosen = reinterpret_cast<Chosen<T>*>(context.workspace);
    const int64_t windows = p.out_elements() / kPack<T>, pixels = p.in_elements() / kPack<T>;
    choose_kernel<<<blocks(ceil_div(windows, kThreads)), kThreads, 0, stream_of(context)>>>(
        p, windows, in<T>(context, 1), in<T>(context, 2), chosen);
    max_grad_kernel<<<blocks(ceil_div(pixels, kThreads)), kThreads, 0, stream_of(context)>>>(
        p, pixels, in<T>(context, 0), chosen, out<T>(context, 0));
  });
}

size_t workspace(const KernelShape& shape) {
  const TensorType& x = shape.inputs[0];
  return takes(x.shape, x.dtype, shape.attrs) ? 0 : Apart::workspace(shape);
}
size_t grad_workspace(const KernelShape& shape) {
  const TensorType &dy = shape.inputs[0], &x = shape.inputs[1];
  return takes(x.shape, x.dtype, shape.attrs) ? static_cast<size_t>(dy.shape.elements())
                                              : ApartGrad::workspace(shape);
}

template <int kImage>
bool gains(const KernelShape& shape) {
  const TensorType& image = shape.inputs[kImage];
  return image.dtype != DType::f32 && takes(image.shape, image.dtype, shape.attrs);
}

}  // namespace

void add_pool2d_nhwc(KernelTable& table) {
  add_for_all_formats(table, "max_pool2d_nhwc",
                      {.run = max_pool2d_nhwc, .workspace_bytes = workspace, .gains = gains<0>});
  add_for_all_formats(table, "max_pool2d_nhwc_grad",
                      {.run = max_pool2d_nhwc_grad, .workspace_bytes = grad_workspace, .gains = gains<1>});
}

}  // namespace trireme::cuda
