// Convolution and its gradients with channels last. They are cuDNN's, or where it has no plan the ops with
// channels first, with copies of all tensors that lie as they want them. Images whose channels are no whole
// pack, such as those that a network begins with, are laid out as rows of patches and multiplied: on them
// cuDNN's plans are two or three times slower.
#include <algorithm>

#include "trireme/ir/channels_last.h"
#include "trireme/kernels/composed.h"
#include "trireme/kernels/cuda/cudnn_convolution.h"
#include "trireme/kernels/cuda/gemm.h"
#include "trireme/kernels/cuda/table.h"

namespace trireme::cuda {
namespace {

constexpr int kOfPack = 8, kThreads = 256;  // kOfPack: 16-bit elements
constexpr int64_t kMostPatchBytes = int64_t{512} << 20;

size_t aligned(int64_t bytes) {
  return static_cast<size_t>(ceil_div(bytes, 256) * 256);
}

// Rows of patches, a pixel of the result each, with zeros behind them up to whole packs; some images at a time.
struct Patches {
  Conv conv;
  int patch, wide;
  int64_t images_at_once;
  size_t bytes, weight_bytes;  // weight_bytes: in f32, since parts of a gradient are added so

  Patches(const Conv& c)
      : conv(c),
        patch(static_cast<int>(c.patch())),
        wide(static_cast<int>(ceil_div(patch, kOfPack)) * kOfPack),
        images_at_once(std::clamp<int64_t>(kMostPatchBytes / (c.out_plane() * wide * 2), 1, c.images)),
        bytes(aligned(images_at_once * c.out_plane() * wide * 2)),
        weight_bytes(aligned(c.filters * wide * 4)) {}
  // y = patches · weightᵀ, and weight = yᵀ · patches, without addresses.
  Gemm product(Convolved made, DType dtype, int64_t images) const {
    Gemm g;
    const int64_t pixels = images * conv.out_plane();
    g.dtype = dtype;
    if (made == Convolved::kOutput) {
      g.m = pixels;
      g.n = conv.filters;
      g.k = wide;
      g.a.stride = g.b.stride = wide;
      g.b.transpose = Transpose::kYes;
      g.c_dtype = dtype;
    } else {
      g.m = conv.filters;
      g.n = wide;
      g.k = pixels;
      g.a.stride = conv.filters;
      g.a.transpose = Transpose::kYes;
      g.b.stride = wide;
    }
    g.c_stride = g.n;
    return g;
  }
  size_t workspace(Convolved made, DType dtype) const {
    return bytes + weight_bytes + gemm_workspace_bytes(product(made, dtype, images_at_once));
  }
};

template <typename T>
__global__ void patches_kernel(Patches p, const T* x, T* to, int64_t packs) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= packs) return;
  const Conv& c = p.conv;
  const int of_row = p.wide / kOfPack, channels = static_cast<int>(c.channels);
  const int pixel = static_cast<int>(at / of_row), first = static_cast<int>(at % of_row) * kOfPack;
  const int column = pixel % c.x.out, row = pixel / c.x.out % c.y.out, image = pixel / (c.x.out * c.y.out);
  const int top = row * c.y.stride - c.y.padding, left = column * c.x.stride - c.x.padding;
  const T* const from = x + image * c.in_plane() * channels;
  Pack<T> pack;
#pragma unroll
  for (int e = 0; e < kOfPack; ++e) {
    const int k = first + e, tap = k / channels, channel = k % channels;
    const int iy = top + tap / c.x.kernel * c.y.dilation, ix = left + tap % c.x.kernel * c.x.dilation;
    const bool inside = k < p.patch && iy >= 0 && iy < c.y.size && ix >= 0 && ix < c.x.size;
    pack.at[e] = inside ? from[(iy * c.x.size + ix) * channels + channel] : narrow<T>(0);
  }
  store_pack(to + at * kOfPack, pack);
}

// Rows of `from` numbers become rows of `to`, what is more being zero and what is less left out.
template <typename X, typename Y>
__global__ void resize_kernel(const X* x, int from, Y* y, int to, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const int at = static_cast<int>(i % to);
  y[i] = narrow<Y>(at < from ? widen(x[i / to * from + at]) : 0.0f);
}

template <typename T>
void multiply_patches(Convolved made, const KernelContext& context, const Conv& conv, const ConvArrays& arrays) {
  const Patches p(conv);
  const DType dtype = context.inputs[0].dtype;
  const cudaStream_t stream = stream_of(context);
  T* const patches = reinterpret_cast<T*>(context.workspace);
  std::byte *const weight = context.workspace + p.bytes, *const product_workspace = weight + p.weight_bytes;
  const auto resize = [&](auto* x, int from, auto* y, int to) {
    const int64_t count = conv.filters * to;
    resize_kernel<<<blocks(ceil_div(count, kThreads)), kThreads, 0, stream>>>(x, from, y, to, count);
  };
  if (made == Convolved::kOutput)
    resize(static_cast<const T*>(arrays.weight), p.patch, reinterpret_cast<T*>(weight), p.wide);
  for (int64_t first = 0; first < conv.images; first += p.images_at_once) {
    const int64_t images = std::min(p.images_at_once, conv.images - first), pixels = images * conv.out_plane(),
                  packs = pixels * p.wide / kOfPack;
    patches_kernel<<<blocks(ceil_div(packs, kThreads)), kThreads, 0, stream>>>(
        p, static_cast<const T*>(arrays.x) + first * conv.in_plane() * conv.channels, patches, packs);
    T* const y = static_cast<T*>(const_cast<void*>(arrays.y)) + first * conv.out_plane() * conv.filters;
    Gemm g = p.product(made, dtype, images);
    if (made == Convolved::kOutput) {
      g.a.data = patches;
      g.b.data = weight;
      g.c = y;
    } else {
      g.a.data = y;
      g.b.data = patches;
      g.c = weight;
      g.residual = first > 0 ? weight : nullptr;
    }
    multiply(g, context_of(context), product_workspace);
  }
  if (made == Convolved::kWeight)
    resize(reinterpret_cast<const float*>(weight), p.wide, out<T>(context, 0), p.patch);
}

// Number of each of the three tensors among inputs and outputs counted through, of which there are two and one.
struct Places {
  size_t x, weight, y;
};
constexpr Places places_of(Convolved made) {
  return made == Convolved::kOutput  ? Places{0, 1, 2}
         : made == Convolved::kInput ? Places{2, 1, 0}
                                     : Places{1, 2, 0};
}

template <typename Operand>
const Operand& at(std::span<const Operand> inputs, std::span<const Operand> outputs, size_t place) {
  return place < inputs.size() ? inputs[place] : outputs[place - inputs.size()];
}

template <Convolved kMade, ComposedIndex kOp>
struct Nhwc {
  using Apart = ComposedKernel<cuda_kernels, kOp>;
  static constexpr Places kPlaces = places_of(kMade);

  template <typename Operand>
  static Conv conv_of(std::span<const Operand> inputs, std::span<const Operand> outputs, const Attrs& attrs) {
    return Conv(channels_first(at(inputs, outputs, kPlaces.x).shape),
                channels_first(at(inputs, outputs, kPlaces.weight).shape), attrs);
  }
  // Pixels are counted in 32 bits.
  static bool by_patches(const Conv& conv, DType dtype) {
    return kMade != Convolved::kInput && dtype != DType::f32 && conv.channels % kOfPack != 0 && conv.images > 0 &&
           conv.images * std::max(conv.in_plane(), conv.out_plane()) < int64_t{1} << 31;
  }
  // cuDNN is asked when the kernel runs, so there must be room for what stands in for it.
  static size_t workspace(const KernelShape& shape) {
    const Conv conv = conv_of(shape.inputs, shape.outputs, shape.attrs);
    const DType dtype = shape.inputs[0].dtype;
    if (by_patches(conv, dtype)) return Patches(conv).workspace(kMade, dtype);
    return std::max(cudnn_convolution_workspace(conv, dtype, Channels::kLast), Apart::workspace(shape));
  }
  static bool gains(const KernelShape& shape) {
    const Conv conv = conv_of(shape.inputs, shape.outputs, shape.attrs);
    return cudnn_convolution_workspace(conv, shape.inputs[0].dtype, Channels::kLast) > 0;
  }
  static void run(const KernelContext& context) {
    if (context.outputs[0].elements() == 0) return;
    const auto data = [&](size_t place) { return at(context.inputs, context.outputs, place).data; };
    const Conv conv = conv_of(context.inputs, context.outputs, context.attrs);
    const DType dtype = context.inputs[0].dtype;
    const ConvArrays arrays{data(kPlaces.x), data(kPlaces.weight), data(kPlaces.y)};
    if (by_patches(conv, dtype)) {
      if (dtype == DType::bf16) return multiply_patches<bf16>(kMade, context, conv, arrays);
      return multiply_patches<f16>(kMade, context, conv, arrays);
    }
    if (!cudnn_convolution(kMade, conv, dtype, Channels::kLast, arrays, context_of(context), context.workspace))
      Apart::run(context);
  }
  static constexpr Kernel kKernel{.run = run, .workspace_bytes = workspace, .gains = gains};
};

}  // namespace

void add_conv2d_nhwc(KernelTable& table) {
  add_for_all_formats(table, "conv2d_nhwc", Nhwc<Convolved::kOutput, kConv2dNhwc>::kKernel);
  add_for_all_formats(table, "conv2d_nhwc_grad_input",
                      Nhwc<Convolved::kInput, kConv2dNhwcGradInput>::kKernel);
  add_for_all_formats(table, "conv2d_nhwc_grad_weight",
                      Nhwc<Convolved::kWeight, kConv2dNhwcGradWeight>::kKernel);
}

}  // namespace trireme::cuda
