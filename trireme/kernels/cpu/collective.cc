// Collectives on parts of tensors. A part along any dim but the first is scattered over memory, so parts are
// packed one after another, each as large as the largest, exchanged, and put in their places. Where a
// tensor's parts lie one after another by nature, nothing is packed.
#include <algorithm>
#include <cstring>

#include "trireme/kernels/cpu/all_dtypes.h"
#include "trireme/kernels/cpu/cut_dim.h"

namespace trireme::cpu {
namespace {

void all_reduce(const KernelContext& context) {
  const TensorView &x = context.inputs[0], &y = context.outputs[0];
  if (y.data != x.data) std::memcpy(y.data, x.data, x.bytes());
  communicator_of(context).all_reduce(context.attrs.text("axis"), bytes_of(y), y.shape.elements(), y.dtype,
                                      reduction_of(context.attrs));
}

void all_gather(const KernelContext& context) {
  const TensorView &x = context.inputs[0], &y = context.outputs[0];
  const CutDim cut(y.shape, y.dtype, context.attrs, "");
  const int64_t own = context.attrs.integer("coordinate");
  const int64_t count = cut.largest() * cut.ways;
  const size_t stride = static_cast<size_t>(cut.largest()) * cut.element_bytes;
  std::byte* parts = cut.is_contiguous() ? bytes_of(y) : context.workspace;
  std::memcpy(parts + own * stride, x.data, static_cast<size_t>(cut.elements(own)) * cut.element_bytes);
  communicator_of(context).all_gather(context.attrs.text("axis"), parts, count, y.dtype);
  if (cut.is_contiguous()) return;
  for (int64_t way = 0; way < cut.ways; ++way) cut.unpack(parts + way * stride, way, bytes_of(y));
}

void reduce_scatter(const KernelContext& context) {
  const TensorView &x = context.inputs[0], &y = context.outputs[0];
  const CutDim cut(x.shape, x.dtype, context.attrs, "");
  const int64_t own = context.attrs.integer("coordinate");
  const size_t stride = static_cast<size_t>(cut.largest()) * cut.element_bytes;
  std::byte* parts = context.workspace;  // the input may have other readers, so it is copied in any case
  cut.pack_all(bytes_of(x), parts);
  communicator_of(context).reduce_scatter(context.attrs.text("axis"), parts, cut.largest() * cut.ways,
                                          x.dtype, reduction_of(context.attrs));
  std::memcpy(y.data, parts + own * stride, static_cast<size_t>(cut.elements(own)) * cut.element_bytes);
}

// The largest piece that any rank sends another: a part of the one dim by a part of the other, by all the
// rest.
int64_t largest_piece(const Shape& x, const CutDim& to, const CutDim& from, const Attrs& attrs) {
  const int64_t from_extent = x[static_cast<int>(attrs.integer("dim"))];
  const int64_t to_extent = x[static_cast<int>(attrs.integer("to_dim"))];
  const int64_t rest = x.elements() / from_extent / to_extent;
  const int64_t from_largest = from.part(0).size * attrs.integer("blocks", 1);
  const int64_t to_largest = to.part(0).size * attrs.integer("to_blocks", 1);
  return rest * from_largest * to_largest;
}

void all_to_all(const KernelContext& context) {
  const TensorView &x = context.inputs[0], &y = context.outputs[0];
  const CutDim to(x.shape, x.dtype, context.attrs, "to_"), from(y.shape, y.dtype, context.attrs, "");
  const int64_t piece = largest_piece(x.shape, to, from, context.attrs);
  const size_t stride = static_cast<size_t>(piece) * to.element_bytes;
  std::byte* sent = context.workspace;
  std::byte* received = sent + static_cast<size_t>(to.ways) * stride;
  for (int64_t way = 0; way < to.ways; ++way) to.pack(bytes_of(x), way, sent + way * stride);
  communicator_of(context).all_to_all(context.attrs.text("axis"), sent, received, piece * to.ways, x.dtype);
  for (int64_t way = 0; way < to.ways; ++way) from.unpack(received + way * stride, way, bytes_of(y));
}

size_t parts_bytes(const CutDim& cut) {
  return static_cast<size_t>(cut.largest() * cut.ways) * cut.element_bytes;
}

}  // namespace

void add_collective(KernelTable& table) {
  add_for_all_dtypes(table, "all_reduce", {.run = all_reduce});
  add_for_all_dtypes(table, "all_gather",
                     {.run = all_gather, .workspace_bytes = [](const KernelShape& s) -> size_t {
                        const CutDim cut(s.outputs[0].shape, s.outputs[0].dtype, s.attrs, "");
                        return cut.is_contiguous() ? 0 : parts_bytes(cut);
                      }});
  add_for_all_dtypes(table, "reduce_scatter",
                     {.run = reduce_scatter, .workspace_bytes = [](const KernelShape& s) {
                        return parts_bytes(CutDim(s.inputs[0].shape, s.inputs[0].dtype, s.attrs, ""));
                      }});
  add_for_all_dtypes(table, "all_to_all",
                     {.run = all_to_all, .workspace_bytes = [](const KernelShape& s) {
                        const CutDim to(s.inputs[0].shape, s.inputs[0].dtype, s.attrs, "to_");
                        const CutDim from(s.outputs[0].shape, s.outputs[0].dtype, s.attrs, "");
                        const int64_t piece = largest_piece(s.inputs[0].shape, to, from, s.attrs);
                        return 2 * static_cast<size_t>(piece * to.ways) * to.element_bytes;
                      }});
}

}  // namespace trireme::cpu
