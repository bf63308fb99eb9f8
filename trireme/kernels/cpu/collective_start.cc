// Collectives that are started by one node and waited for by a later one. Tensors of one all_reduce that are
// neighbours in memory, as the gradients of a bucket are, are one call; which of them are is the attribute
// `runs` (passes/memory.h). Who waits finds what was started by where it lies.
#include "trireme/kernels/cpu/all_dtypes.h"
#include "trireme/kernels/cpu/cut_dim.h"

namespace trireme::cpu {
namespace {

// Calls body(begin, bytes) for each run of neighbours; without the attribute each tensor is alone.
template <typename Body>
void for_each_run(const Attrs& attrs, std::span<const TensorView> views, const Body& body) {
  const auto call = [&](size_t first, size_t count) {
    const TensorView& last = views[first + count - 1];
    std::byte *const begin = bytes_of(views[first]), *const end = bytes_of(last) + last.bytes();
    if (end != begin) body(begin, static_cast<size_t>(end - begin));
  };
  if (!attrs.has("runs")) {
    for (size_t i = 0; i < views.size(); ++i) call(i, 1);
    return;
  }
  size_t first = 0;
  for (int64_t count : attrs.integers("runs")) {
    TRIREME_CHECK(first + static_cast<size_t>(count) <= views.size());
    call(first, static_cast<size_t>(count));
    first += static_cast<size_t>(count);
  }
}

void all_reduce_start(const KernelContext& context) {
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    const TensorView &x = context.inputs[i], &y = context.outputs[i];
    if (y.data != x.data) std::memcpy(y.data, x.data, x.bytes());
  }
  const DType dtype = context.outputs[0].dtype;
  for_each_run(context.attrs, context.outputs, [&](std::byte* data, size_t bytes) {
    communicator_of(context).start_all_reduce(context.attrs.text("axis"), data,
                                              static_cast<int64_t>(bytes / size_of(dtype)), dtype,
                                              reduction_of(context.attrs));
  });
}

void all_gather_start(const KernelContext& context) {
  const TensorView &x = context.inputs[0], &y = context.outputs[0];
  if (y.bytes() == 0) return;
  std::memcpy(bytes_of(y) + context.attrs.integer("coordinate") * x.bytes(), x.data, x.bytes());
  communicator_of(context).start_all_gather(context.attrs.text("axis"), bytes_of(y), y.shape.elements(),
                                            y.dtype);
}

void reduce_scatter_start(const KernelContext& context) {
  const TensorView &x = context.inputs[0], &parts = context.outputs[0];
  if (parts.bytes() == 0) return;
  CutDim(x.shape, x.dtype, context.attrs, "").pack_all(bytes_of(x), bytes_of(parts));
  communicator_of(context).start_reduce_scatter(context.attrs.text("axis"), bytes_of(parts),
                                                parts.shape.elements(), x.dtype, reduction_of(context.attrs));
}

void collective_wait(const KernelContext& context) {
  for_each_run(context.attrs, context.inputs, [&](std::byte* data, size_t) { communicator_of(context).wait(data); });
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    const TensorView &x = context.inputs[i], &y = context.outputs[i];
    if (y.data != x.data) std::memcpy(y.data, x.data, x.bytes());
  }
}

void reduce_scatter_wait(const KernelContext& context) {
  const TensorView &parts = context.inputs[0], &y = context.outputs[0];
  if (parts.bytes() == 0) return;
  communicator_of(context).wait(bytes_of(parts));
  const size_t stride = parts.bytes() / static_cast<size_t>(context.attrs.integer("ways"));
  std::memcpy(y.data, bytes_of(parts) + context.attrs.integer("coordinate") * stride, y.bytes());
}

}  // namespace

void add_collective_start(KernelTable& table) {
  add_for_all_dtypes(table, "all_reduce_start", {.run = all_reduce_start});
  add_for_all_dtypes(table, "all_gather_start", {.run = all_gather_start});
  add_for_all_dtypes(table, "reduce_scatter_start", {.run = reduce_scatter_start});
  add_for_all_dtypes(table, "all_reduce_wait", {.run = collective_wait});
  add_for_all_dtypes(table, "all_gather_wait", {.run = collective_wait});
  add_for_all_dtypes(table, "reduce_scatter_wait", {.run = reduce_scatter_wait});
}

}  // namespace trireme::cpu
