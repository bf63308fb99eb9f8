// cuDNN computes with channels last. Of tensors that have them first its plans make copies in their
// workspace, there and back.
#include "trireme/kernels/cuda/cudnn_convolution.h"
#include "trireme/kernels/cuda/cudnn_library.h"
#include "trireme/kernels/cuda/cudnn_plans.h"
#include "trireme/kernels/cuda/products.h"

namespace trireme::cuda {
namespace {

using Four = CudnnGraph::Four;

constexpr int64_t kFirstKind = 16;  // of a key: attention has those below
enum Id : int64_t { kX = 1, kWeight, kY };

Four image_dims(const Conv& c) {
  return {c.images, c.groups * c.channels, c.y.size, c.x.size};
}
Four weight_dims(const Conv& c) {
  return {c.groups * c.filters, c.channels, c.y.kernel, c.x.kernel};
}
Four result_dims(const Conv& c) {
  return {c.images, c.groups * c.filters, c.y.out, c.x.out};
}
Four strides_of(const Four& d, Channels channels) {
  if (channels == Channels::kFirst) return {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1};
  return {d[1] * d[2] * d[3], 1, d[1] * d[3], d[1]};
}

CudnnGraph graph_of(Convolved made, const Conv& c, DType dtype, Channels channels) {
  CudnnGraph g;
  const auto tensor = [&](Id id, const Four& dims) {
    return g.real(id, cudnn_type(dtype), dims, strides_of(dims, channels));
  };
  g.convolve(made == Convolved::kOutput  ? CudnnGraph::Of::kOutput
             : made == Convolved::kInput ? CudnnGraph::Of::kInput
                                         : CudnnGraph::Of::kWeight,
             {{c.y.padding, c.x.padding}, {c.y.stride, c.x.stride}, {c.y.dilation, c.x.dilation}},
             tensor(kX, image_dims(c)), tensor(kWeight, weight_dims(c)), tensor(kY, result_dims(c)));
  return g;
}

// A copy with channels last, in whole packs.
size_t turned_bytes(const Four& d, DType dtype) {
  return static_cast<size_t>(d[0] * ceil_div(d[1], 8) * 8 * d[2] * d[3]) * size_of(dtype);
}

CudnnFactors factors_of(DType dtype, const CudaContext& context) {
  const bool kept = dtype == DType::f32 && context.products->f32() == F32Products::kF32;
  return kept ? CudnnFactors::kAsTheyAre : CudnnFactors::kOfTensorCores;
}

// Beside copies, parts of the sums of a weight's gradient.
constexpr size_t kPartsBytes = size_t{32} << 20, kPartsBytesOfLast = size_t{128} << 20;

size_t plan_workspace(const Conv& c, DType dtype, Channels channels) {
  // Channels that are no whole pack are copied even so.
  if (channels == Channels::kLast && c.channels % 8 == 0 && c.filters % 8 == 0) return kPartsBytesOfLast;
  return turned_bytes(image_dims(c), dtype) + turned_bytes(weight_dims(c), dtype) +
         turned_bytes(result_dims(c), dtype) + kPartsBytes;
}

}  // namespace

size_t cudnn_convolution_workspace(const Conv& conv, DType dtype, Channels channels) {
  return cudnn() ? plan_workspace(conv, dtype, channels) + kCudnnAlignment : 0;
}

bool cudnn_convolution(Convolved made, const Conv& c, DType dtype, Channels channels,
                       const ConvArrays& arrays, CudaContext& context, std::byte* workspace) {
  if (!cudnn() || c.images == 0) return false;
  const CudnnPlans::Key key{kFirstKind + 2 * static_cast<int64_t>(made) + static_cast<int64_t>(channels),
                            static_cast<int64_t>(dtype),
                            c.images,
                            c.groups,
                            c.channels,
                            c.filters,
                            c.y.size,
                            c.x.size,
                            c.y.kernel,
                            c.x.kernel,
                            c.y.stride,
                            c.x.stride,
                            c.y.padding,
                            c.x.padding,
                            c.y.dilation,
                            c.x.dilation};
  CudnnPlans& plans = *context.cudnn_plans;
  const CudnnPlan* plan = plans.find(
      key, plan_workspace(c, dtype, channels), [&] { return graph_of(made, c, dtype, channels); },
      factors_of(dtype, context));
  if (!plan) return false;
  const CudnnPlan::Binding bindings[] = {{kX, arrays.x}, {kWeight, arrays.weight}, {kY, arrays.y}};
  plans.run(*plan, bindings, cudnn_aligned(workspace));
  return true;
}

}  // namespace trireme::cuda
