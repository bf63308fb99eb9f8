// Convolution and its gradients with channels last: cuDNN's, or where it has no plan the ops with channels
// first, with copies of all tensors that lie as they want them. The three channels that a network begins with
// cost a thirteenth of a ResNet-50's step; padded to eight, or as patches and a product, they cost more.
#include <algorithm>

#include "trireme/ir/channels_last.h"
#include "trireme/kernels/composed.h"
#include "trireme/kernels/cuda/cudnn_convolution.h"
#include "trireme/kernels/cuda/table.h"

namespace trireme::cuda {
namespace {

// Number of each of the three tensors among inputs and outputs counted through, of which there are two and
// one.
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
  static size_t own_workspace(const KernelShape& shape) {
    return cudnn_convolution_workspace(conv_of(shape.inputs, shape.outputs, shape.attrs),
                                       shape.inputs[0].dtype, Channels::kLast);
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
    if (!cudnn_convolution(kMade, conv, context.inputs[0].dtype, Channels::kLast,
                           {data(kPlaces.x), data(kPlaces.weight), data(kPlaces.y)}, context_of(context),
                           context.workspace))
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
