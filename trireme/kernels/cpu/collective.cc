// Collectives on parts of tensors. A part along any dim but the first is scattered over memory, so parts are
// packed one after another, each as large as the largest, exchanged, and put in their places. Where a
// tensor's parts lie one after another by nature, nothing is packed.
#include <algorithm>
#include <cstring>

#include "trireme/base/error.h"
#include "trireme/base/part.h"
#include "trireme/kernels/communicator.h"
#include "trireme/kernels/cpu/all_dtypes.h"

namespace trireme::cpu {
namespace {

// One dim of a whole tensor, cut in parts; see ops/collective.cc.
struct CutDim {
  int64_t rows, extent, unit, inner;  // the tensor as [rows, extent / unit, unit, inner]; rows include blocks
  int64_t ways;
  size_t element_bytes;

  CutDim(const Shape& whole, DType dtype, const Attrs& attrs, const std::string& prefix) {
    const int dim = static_cast<int>(attrs.integer(prefix + "dim"));
    const int64_t blocks = attrs.integer(prefix + "blocks", 1);
    rows = whole.elements(0, dim) * blocks;
    extent = whole[dim] / blocks;
    unit = attrs.integer(prefix + "unit", 1);
    inner = whole.elements(dim + 1, whole.rank());
    ways = attrs.integer("ways");
    element_bytes = size_of(dtype);
  }

  Part part(int64_t way) const {
    const Part units = part_of(extent / unit, ways, way);
    return {units.begin * unit, units.size * unit};
  }
  int64_t elements(int64_t way) const { return rows * part(way).size * inner; }
  int64_t largest() const { return elements(0); }
  // Parts are equal and lie one after another in the whole.
  bool is_contiguous() const { return rows == 1 && extent / unit % ways == 0; }

  void pack(const std::byte* whole, int64_t way, std::byte* part_data) const {
    each_row(way, [&](size_t in_whole, size_t in_part, size_t bytes) {
      std::memcpy(part_data + in_part, whole + in_whole, bytes);
    });
  }
  void unpack(const std::byte* part_data, int64_t way, std::byte* whole) const {
    each_row(way, [&](size_t in_whole, size_t in_part, size_t bytes) {
      std::memcpy(whole + in_whole, part_data + in_part, bytes);
    });
  }

 private:
  template <typename Copy>
  void each_row(int64_t way, const Copy& copy) const {
    const Part own = part(way);
    const size_t bytes = static_cast<size_t>(own.size * inner) * element_bytes;
    for (int64_t row = 0; row < rows; ++row) {
      const size_t in_whole = static_cast<size_t>((row * extent + own.begin) * inner) * element_bytes;
      copy(in_whole, static_cast<size_t>(row) * bytes, bytes);
    }
  }
};

Communicator& communicator_of(const KernelContext& context) {
  TRIREME_CHECK(context.communicator != nullptr);
  return *context.communicator;
}

Communicator::Reduction reduction_of(const Attrs& attrs) {
  return attrs.text("reduction") == "max" ? Communicator::Reduction::kMax : Communicator::Reduction::kSum;
}

std::byte* bytes_of(const TensorView& view) {
  return static_cast<std::byte*>(view.data);
}

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
  for (int64_t way = 0; way < cut.ways; ++way) {
    const size_t used = static_cast<size_t>(cut.elements(way)) * cut.element_bytes;
    cut.pack(bytes_of(x), way, parts + way * stride);
    std::memset(parts + way * stride + used, 0, stride - used);
  }
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
