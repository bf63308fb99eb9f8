// Collectives on parts of tensors, for any device. A part along any dim but the first is scattered over
// memory, so parts are packed one after another, exchanged, and put in their places. Where a tensor's parts
// lie one after another by nature, nothing is packed. Parts of several tensors together are each as large as
// the largest (ir/packing.h).
//
// `Memory` is how the device moves bytes in its own memory, in the order of the kernel's stream:
//   static void copy(const KernelContext&, std::byte* to, const std::byte* from, size_t bytes);
//   static void copy_rows(const KernelContext&, std::byte* to, size_t to_pitch, const std::byte* from,
//                         size_t from_pitch, size_t bytes, size_t rows);
//   static void zero(const KernelContext&, std::byte* to, size_t bytes);
#pragma once

#include <algorithm>

#include "trireme/kernels/communicator.h"
#include "trireme/kernels/cut_dim.h"
#include "trireme/kernels/kernel.h"

namespace trireme {

template <typename Memory>
class CollectiveKernels {
 public:
  // For all dtypes: collectives move elements without looking into them, but for sums, which are the
  // communicator's.
  static void add_to(KernelTable& table) {
    const auto add = [&](std::string_view op, Kernel kernel) { add_for_all_dtypes(table, op, kernel); };
    add("all_reduce", {.run = all_reduce});
    add("all_gather", {.run = all_gather, .workspace_bytes = all_gather_workspace});
    add("reduce_scatter", {.run = reduce_scatter, .workspace_bytes = reduce_scatter_workspace});
    add("all_to_all", {.run = all_to_all, .workspace_bytes = all_to_all_workspace});
    add("all_reduce_start", {.run = all_reduce_start});
    add("all_gather_start", {.run = all_gather_start});
    add("all_gather_packed_start", {.run = all_gather_packed_start});
    add("reduce_scatter_start", {.run = reduce_scatter_start});
    add("all_reduce_wait", {.run = wait});
    add("all_gather_wait", {.run = wait});
    add("all_gather_packed_wait", {.run = all_gather_packed_wait});
    add("reduce_scatter_wait", {.run = reduce_scatter_wait});
  }

 private:
  static std::byte* bytes_of(const TensorView& view) { return static_cast<std::byte*>(view.data); }
  static Communicator& communicator_of(const KernelContext& context) {
    TRIREME_CHECK(context.communicator != nullptr);
    return *context.communicator;
  }
  static Communicator::Reduction reduction_of(const Attrs& attrs) {
    return attrs.text("reduction", "sum") == "max" ? Communicator::Reduction::kMax
                                                   : Communicator::Reduction::kSum;
  }

  // Unless they are one memory.
  static void copy_tensor(const KernelContext& context, const TensorView& to, const TensorView& from) {
    if (to.data != from.data) Memory::copy(context, bytes_of(to), bytes_of(from), from.bytes());
  }
  static void pack(const KernelContext& context, const CutDim& cut, const std::byte* whole, int64_t way,
                   std::byte* part) {
    const CutDim::Runs runs = cut.runs(way);
    Memory::copy_rows(context, part, runs.bytes, whole + runs.offset, runs.pitch, runs.bytes, runs.rows);
  }
  static void unpack(const KernelContext& context, const CutDim& cut, const std::byte* part, int64_t way,
                     std::byte* whole) {
    const CutDim::Runs runs = cut.runs(way);
    Memory::copy_rows(context, whole + runs.offset, runs.pitch, part, runs.bytes, runs.bytes, runs.rows);
  }
  // What is behind a part that is smaller than the largest is sent too, so it is made zero.
  static void fill_up(const KernelContext& context, const CutDim& cut, std::byte* part, int64_t way) {
    Memory::zero(context, part + cut.bytes(way), cut.stride() - cut.bytes(way));
  }
  static size_t whole_bytes(const CutDim& cut) {
    return static_cast<size_t>(cut.units() * cut.unit_elements()) * cut.element_bytes;
  }

  static void all_reduce(const KernelContext& context) {
    const TensorView &x = context.inputs[0], &y = context.outputs[0];
    copy_tensor(context, y, x);
    communicator_of(context).all_reduce(context.attrs.text("axis"), bytes_of(y), y.shape.elements(), y.dtype,
                                        reduction_of(context.attrs));
  }

  static void all_gather(const KernelContext& context) {
    const TensorView &x = context.inputs[0], &y = context.outputs[0];
    const CutDim cut(y.shape, y.dtype, context.attrs, "");
    const int64_t own = context.attrs.integer("coordinate");
    std::byte* parts = cut.is_in_order() ? bytes_of(y) : context.workspace;
    Memory::copy(context, parts + cut.place(own), bytes_of(x), cut.bytes(own));
    communicator_of(context).all_gather(context.attrs.text("axis"), parts, y.shape.elements(), y.dtype,
                                        std::max<int64_t>(1, cut.unit_elements()));
    if (cut.is_in_order()) return;
    for (int64_t way = 0; way < cut.ways; ++way)
      unpack(context, cut, parts + cut.place(way), way, bytes_of(y));
  }
  static size_t all_gather_workspace(const KernelShape& s) {
    const CutDim cut(s.outputs[0].shape, s.outputs[0].dtype, s.attrs, "");
    return cut.is_in_order() ? 0 : whole_bytes(cut);
  }

  static void reduce_scatter(const KernelContext& context) {
    const TensorView &x = context.inputs[0], &y = context.outputs[0];
    const CutDim cut(x.shape, x.dtype, context.attrs, "");
    const int64_t own = context.attrs.integer("coordinate");
    std::byte* parts = context.workspace;  // the input may have other readers, so it is copied in any case
    for (int64_t way = 0; way < cut.ways; ++way) pack(context, cut, bytes_of(x), way, parts + cut.place(way));
    communicator_of(context).reduce_scatter(context.attrs.text("axis"), parts, x.shape.elements(), x.dtype,
                                            reduction_of(context.attrs),
                                            std::max<int64_t>(1, cut.unit_elements()));
    Memory::copy(context, bytes_of(y), parts + cut.place(own), cut.bytes(own));
  }
  static size_t reduce_scatter_workspace(const KernelShape& s) {
    return whole_bytes(CutDim(s.inputs[0].shape, s.inputs[0].dtype, s.attrs, ""));
  }

  static void all_to_all(const KernelContext& context) {
    const TensorView &x = context.inputs[0], &y = context.outputs[0];
    const CutDim to(x.shape, x.dtype, context.attrs, "to_"), from(y.shape, y.dtype, context.attrs, "");
    std::byte* const sent = context.workspace;
    std::byte* const received = sent + whole_bytes(to);
    for (int64_t way = 0; way < to.ways; ++way) pack(context, to, bytes_of(x), way, sent + to.place(way));
    communicator_of(context).all_to_all({.axis = context.attrs.text("axis"),
                                         .from = sent,
                                         .given = {to.units(), to.unit_elements()},
                                         .to = received,
                                         .gotten = {from.units(), from.unit_elements()},
                                         .dtype = x.dtype});
    for (int64_t way = 0; way < to.ways; ++way)
      unpack(context, from, received + from.place(way), way, bytes_of(y));
  }
  static size_t all_to_all_workspace(const KernelShape& s) {
    return whole_bytes(CutDim(s.inputs[0].shape, s.inputs[0].dtype, s.attrs, "to_")) +
           whole_bytes(CutDim(s.outputs[0].shape, s.outputs[0].dtype, s.attrs, ""));
  }

  // Those that are started by one node and waited for by a later one. Tensors of one all_reduce that are
  // neighbours in memory, as the gradients of a bucket are, are one call; which of them are is the attribute
  // `runs` (passes/memory.h). Who waits finds what was started by where it lies.

  // Calls body(begin, bytes) for each run of neighbours; without the attribute each tensor is alone.
  template <typename Body>
  static void for_each_run(const Attrs& attrs, std::span<const TensorView> views, const Body& body) {
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

  static void start(const KernelContext& context, CollectiveKind kind, const TensorView& all) {
    communicator_of(context).start({kind, context.attrs.text("axis"), bytes_of(all), all.shape.elements(),
                                    all.dtype, reduction_of(context.attrs)});
  }

  static void all_reduce_start(const KernelContext& context) {
    for (size_t i = 0; i < context.inputs.size(); ++i)
      copy_tensor(context, context.outputs[i], context.inputs[i]);
    const DType dtype = context.outputs[0].dtype;
    for_each_run(context.attrs, context.outputs, [&](std::byte* data, size_t bytes) {
      communicator_of(context).start({CollectiveKind::kAllReduce, context.attrs.text("axis"), data,
                                      static_cast<int64_t>(bytes / size_of(dtype)), dtype,
                                      reduction_of(context.attrs)});
    });
  }

  static void all_gather_start(const KernelContext& context) {
    const TensorView &x = context.inputs[0], &y = context.outputs[0];
    if (y.bytes() == 0) return;
    Memory::copy(context, bytes_of(y) + static_cast<size_t>(context.attrs.integer("coordinate")) * x.bytes(),
                 bytes_of(x), x.bytes());
    start(context, CollectiveKind::kAllGather, y);
  }

  static void wait(const KernelContext& context) {
    for_each_run(context.attrs, context.inputs,
                 [&](std::byte* data, size_t) { communicator_of(context).wait(data); });
    for (size_t i = 0; i < context.inputs.size(); ++i)
      copy_tensor(context, context.outputs[i], context.inputs[i]);
  }

  // Those of several tensors, packed in one; see ir/packing.h. Calls body(cut, view, place) for each tensor:
  // `place` is that of its part for rank 0 in `packed`, those for the others follow `row` bytes apart.
  struct PackedRows {
    std::byte* begin;
    size_t row;
    int64_t ways, own;
    std::byte* part(std::byte* place, int64_t way) const { return place + static_cast<size_t>(way) * row; }
  };
  static PackedRows rows_of(const KernelContext& context, const TensorView& packed) {
    const int64_t ways = context.attrs.integer("ways");
    return {bytes_of(packed), packed.bytes() / static_cast<size_t>(ways), ways,
            context.attrs.integer("coordinate")};
  }
  template <typename Body>
  static void for_each_tensor(const KernelContext& context, const PackedRows& rows,
                              std::span<const TensorView> views, const Body& body) {
    size_t i = 0;
    std::byte* place = rows.begin;
    for_each_packed(context.attrs, [&](const CutTensor& tensor) {
      const CutDim cut(tensor, views[i].dtype, rows.ways);
      body(cut, views[i++], place);
      place += cut.stride();
    });
  }

  static void reduce_scatter_start(const KernelContext& context) {
    const TensorView& packed = context.outputs[0];
    if (packed.bytes() == 0) return;
    const PackedRows rows = rows_of(context, packed);
    for_each_tensor(context, rows, context.inputs,
                    [&](const CutDim& cut, const TensorView& x, std::byte* place) {
                      if (cut.is_contiguous()) {
                        Memory::copy_rows(context, place, rows.row, bytes_of(x), cut.stride(), cut.stride(),
                                          static_cast<size_t>(cut.ways));
                        return;
                      }
                      for (int64_t way = 0; way < cut.ways; ++way) {
                        pack(context, cut, bytes_of(x), way, rows.part(place, way));
                        fill_up(context, cut, rows.part(place, way), way);
                      }
                    });
    start(context, CollectiveKind::kReduceScatter, packed);
  }

  static void reduce_scatter_wait(const KernelContext& context) {
    const TensorView& packed = context.inputs[0];
    if (packed.bytes() == 0) return;
    communicator_of(context).wait(bytes_of(packed));
    const PackedRows rows = rows_of(context, packed);
    for_each_tensor(context, rows, context.outputs,
                    [&](const CutDim& cut, const TensorView& y, std::byte* place) {
                      Memory::copy(context, bytes_of(y), rows.part(place, rows.own), cut.bytes(rows.own));
                    });
  }

  static void all_gather_packed_start(const KernelContext& context) {
    const TensorView& packed = context.outputs[0];
    if (packed.bytes() == 0) return;
    const PackedRows rows = rows_of(context, packed);
    for_each_tensor(context, rows, context.inputs,
                    [&](const CutDim& cut, const TensorView& x, std::byte* place) {
                      std::byte* const own = rows.part(place, rows.own);
                      Memory::copy(context, own, bytes_of(x), cut.bytes(rows.own));
                      fill_up(context, cut, own, rows.own);
                    });
    start(context, CollectiveKind::kAllGather, packed);
  }

  static void all_gather_packed_wait(const KernelContext& context) {
    const TensorView& packed = context.inputs[0];
    if (packed.bytes() == 0) return;
    communicator_of(context).wait(bytes_of(packed));
    const PackedRows rows = rows_of(context, packed);
    for_each_tensor(context, rows, context.outputs,
                    [&](const CutDim& cut, const TensorView& y, std::byte* place) {
                      if (cut.is_contiguous()) {
                        Memory::copy_rows(context, bytes_of(y), cut.stride(), place, rows.row, cut.stride(),
                                          static_cast<size_t>(cut.ways));
                        return;
                      }
                      for (int64_t way = 0; way < cut.ways; ++way)
                        unpack(context, cut, rows.part(place, way), way, bytes_of(y));
                    });
  }
};

}  // namespace trireme
