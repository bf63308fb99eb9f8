// map: element-wise ops as one kernel, which NVRTC compiles when a map is first run.
#include "trireme/kernels/composed.h"
#include "trireme/kernels/cuda/device.cuh"
#include "trireme/kernels/cuda/map_kernels.h"
#include "trireme/kernels/cuda/table.h"

namespace trireme::cuda {
namespace {

using PartByPart = ComposedKernel<cuda_kernels, kMap>;

// A kernel for it pays from so many elements on; many small ops are gathered into one launch instead.
constexpr int64_t kFewest = 1 << 14;

bool can_compile(const Attrs& attrs, size_t inputs) {
  return has_nvrtc() && has_formulas(MapCode::of(attrs, static_cast<int>(inputs)));
}
bool gains(const KernelShape& shape) {
  return shape.outputs[0].shape.elements() >= kFewest && can_compile(shape.attrs, shape.inputs.size());
}
size_t workspace(const KernelShape& shape) {
  return can_compile(shape.attrs, shape.inputs.size()) ? 0 : PartByPart::workspace(shape);
}

void map(const KernelContext& context) {
  const int64_t count = context.outputs[0].elements();
  if (count == 0) return;
  if (!can_compile(context.attrs, context.inputs.size())) return PartByPart::run(context);
  MapForm form{
      MapCode::of(context.attrs, static_cast<int>(context.inputs.size())), context.outputs[0].dtype, {}};
  std::vector<const void*> addresses;
  for (const TensorView& input : context.inputs) {
    form.periods.push_back(input.elements() == count ? 0 : input.elements());
    addresses.push_back(input.data);
  }
  for (const TensorView& output : context.outputs) addresses.push_back(output.data);
  std::vector<void*> arguments;
  for (const void*& address : addresses) arguments.push_back(&address);
  long long elements = count;
  arguments.push_back(&elements);
  const int64_t each = int64_t{kMapCodeThreads} * kMapPackBytes / static_cast<int64_t>(size_of(form.dtype));
  check(cudaLaunchKernel(reinterpret_cast<const void*>(context_of(context).maps->find(form)),
                         dim3(blocks(ceil_div(count, each))), dim3(kMapCodeThreads), arguments.data(), 0,
                         stream_of(context)),
        "launching a map");
}

}  // namespace

cudaKernel_t MapKernels::find(const MapForm& form) {
  const std::string source = map_source(form);
  cudaKernel_t& kernel = kernels_[source];
  if (!kernel) kernel = compiled_kernel(source, kMapKernel);
  return kernel;
}

void add_map(KernelTable& table) {
  add_for_all_formats(table, "map", {.run = map, .workspace_bytes = workspace, .gains = gains});
}

}  // namespace trireme::cuda
