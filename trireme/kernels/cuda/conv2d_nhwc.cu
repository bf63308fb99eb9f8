// Convolution and its gradients with channels last: cuDNN's, or where it has no plan the ops with channels
// first, with copies of all tensors that lie as they want them. Images whose channels are no whole pack, such
// as those that a network begins with, are copied with zeros behind them: cuDNN then takes a third of the time.
#include <algorithm>

#include "trireme/ir/channels_last.h"
#include "trireme/kernels/composed.h"
#include "trireme/kernels/cuda/cudnn_convolution.h"
#include "trireme/kernels/cuda/table.h"

namespace trireme::cuda {
namespace {

// Number of each of the three tensors among inputs and outputs counted through, of which there are two and one.
struct Places {
  size_t x, weight, y;
};
constexpr Places places_of(Convolved made) {
  return made == Convolved::kOutput ? Places{0, 1, 2} : made == Convolved::kInput ? Places{2, 1, 0} : Places{1, 2, 0};
}

template <typename Operand>
const Operand& at(std::span<const Operand> inputs, std::span<const Operand> outputs, size_t place) {
  return place < inputs.size() ? inputs[place] : outputs[place - inputs.size()];
}

constexpr int kOfPack = 8, kThreads = 256;  // 16-bit elements

// Rows of `from` channels become rows of `to`, what is more being zero and what is less left out.
template <typename T>
__global__ void resize_rows(const T* x, int from, T* y, int to, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const int64_t row = i / to;
  const int channel = static_cast<int>(i % to);
  y[i] = channel < from ? x[row * from + channel] : narrow<T>(0);
}
void resize_channels(DType dtype, const void* x, int64_t from, void* y, int64_t to, int64_t rows,
                     cudaStream_t stream) {
  with_format(dtype, [&](auto zero) {
    using T = decltype(zero);
    resize_rows<<<blocks(ceil_div(rows * to, kThreads)), kThreads, 0, stream>>>(
        static_cast<const T*>(x), static_cast<int>(from), static_cast<T*>(y), static_cast<int>(to), rows * to);
  });
}

struct Padded {
  Conv conv;
  int64_t pixels, weight_rows;
  size_t image_bytes, weight_bytes;

  Padded(const Conv& c, DType dtype)
      : conv(c), pixels(c.images * c.in_plane()), weight_rows(c.filters * c.taps()) {
    conv.channels = ceil_div(c.channels, kOfPack) * kOfPack;
    const auto bytes = [&](int64_t rows) {
      return static_cast<size_t>(ceil_div(rows * conv.channels * static_cast<int64_t>(size_of(dtype)), 256) * 256);
    };
    image_bytes = bytes(pixels);
    weight_bytes = bytes(weight_rows);
  }
};

template <Convolved kMade, ComposedIndex kOp>
struct Nhwc {
  using Apart = ComposedKernel<cuda_kernels, kOp>;
  static constexpr Places kPlaces = places_of(kMade);

  template <typename Operand>
  static Conv conv_of(std::span<const Operand> inputs, std::span<const Operand> outputs, const Attrs& attrs) {
    return Conv(channels_first(at(inputs, outputs, kPlaces.x).shape),
                channels_first(at(inputs, outputs, kPlaces.weight).shape), attrs);
  }
  static bool pads(const Conv& conv, DType dtype) {
    return kMade != Convolved::kInput && dtype != DType::f32 && conv.channels % kOfPack != 0;
  }
  static size_t own_workspace(const KernelShape& shape) {
    const Conv conv = conv_of(shape.inputs, shape.outputs, shape.attrs);
    const DType dtype = shape.inputs[0].dtype;
    if (!pads(conv, dtype)) return cudnn_convolution_workspace(conv, dtype, Channels::kLast);
    const Padded padded(conv, dtype);
    const size_t bytes = cudnn_convolution_workspace(padded.conv, dtype, Channels::kLast);
    return bytes == 0 ? 0 : padded.image_bytes + padded.weight_bytes + bytes;
  }
  static bool run_padded(const KernelContext& context, const Conv& conv, DType dtype, const ConvArrays& arrays) {
    const Padded padded(conv, dtype);
    const int64_t wide = padded.conv.channels;
    std::byte *const image = context.workspace, *const weight = image + padded.image_bytes;
    const cudaStream_t stream = stream_of(context);
    resize_channels(dtype, arrays.x, conv.channels, image, wide, padded.pixels, stream);
    if (kMade == Convolved::kOutput)
      resize_channels(dtype, arrays.weight, conv.channels, weight, wide, padded.weight_rows, stream);
    if (!cudnn_convolution(kMade, padded.conv, dtype, Channels::kLast, {image, weight, arrays.y},
                           context_of(context), weight + padded.weight_bytes))
      return false;
    if (kMade == Convolved::kWeight)
      resize_channels(dtype, weight, wide, context.outputs[0].data, conv.channels, padded.weight_rows, stream);
    return true;
  }
  // cuDNN is asked when the kernel runs, so there must be room for both ways.
  static size_t workspace(const KernelShape& shape) {
    return std::max(own_workspace(shape), Apart::workspace(shape));
  }
  static bool gains(const KernelShape& shape) {
    return shape.inputs[0].dtype != DType::f32 && own_workspace(shape) > 0;
  }
  static void run(const KernelContext& context) {
    if (context.outputs[0].elements() == 0) return;
    const auto data = [&](size_t place) { return at(context.inputs, context.outputs, place).data; };
    const Conv conv = conv_of(context.inputs, context.outputs, context.attrs);
    const DType dtype = context.inputs[0].dtype;
    const ConvArrays arrays{data(kPlaces.x), data(kPlaces.weight), data(kPlaces.y)};
    const bool done = pads(conv, dtype) ? run_padded(context, conv, dtype, arrays)
                                        : cudnn_convolution(kMade, conv, dtype, Channels::kLast, arrays,
                                                            context_of(context), context.workspace);
    if (!done) Apart::run(context);
  }
  static constexpr Kernel kKernel{.run = run, .workspace_bytes = workspace, .gains = gains};
};

}  // namespace

void add_conv2d_nhwc(KernelTable& table) {
  add_for_all_formats(table, "conv2d_nhwc", Nhwc<Convolved::kOutput, kConv2dNhwc>::kKernel);
  add_for_all_formats(table, "conv2d_nhwc_grad_input", Nhwc<Convolved::kInput, kConv2dNhwcGradInput>::kKernel);
  add_for_all_formats(table, "conv2d_nhwc_grad_weight", Nhwc<Convolved::kWeight, kConv2dNhwcGradWeight>::kKernel);
}

}  // namespace trireme::cuda
