// slice, split, concat, pad and write_at: stretches of contiguous bytes copied between two tensors that
// differ in the extent of one dim, of any dtype.
#include <algorithm>
#include <cstring>

#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/grain.h"

namespace trireme::cpu {
namespace {

// A tensor cut at one dim: `outer` pieces of `bytes` contiguous bytes, all of that dim and those inside.
struct Pieces {
  std::byte* data;
  int64_t outer;
  int64_t bytes;
  int64_t step;  // bytes of one index of the dim

  Pieces(const TensorView& tensor, int dim)
      : data(static_cast<std::byte*>(tensor.data)),
        outer(tensor.shape.elements(0, dim)),
        bytes(tensor.shape.elements(dim, tensor.shape.rank()) * static_cast<int64_t>(size_of(tensor.dtype))),
        step(bytes / std::max<int64_t>(1, tensor.shape[dim])) {}

  std::byte* at(int64_t piece, int64_t byte) const { return data + piece * bytes + byte; }
};

constexpr int64_t kStretch = kElementGrain * sizeof(float);  // bytes that one thread takes at least

// Calls body(piece, first byte, bytes) for stretches that cover `bytes` of each piece.
template <typename Body>
void for_stretches(ThreadPool& pool, int64_t outer, int64_t bytes, const Body& body) {
  if (bytes == 0) return;
  const int64_t stretches = (bytes + kStretch - 1) / kStretch;
  const int64_t grain = std::max<int64_t>(1, kStretch / bytes);
  pool.parallel_for(outer * stretches, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % stretches * kStretch;
      body(i / stretches, first, std::min(kStretch, bytes - first));
    }
  });
}

// Copies `bytes` of each piece of x, from byte x_first on, to byte y_first of the piece of y.
void copy(ThreadPool& pool, const Pieces& x, int64_t x_first, const Pieces& y, int64_t y_first,
          int64_t bytes) {
  for_stretches(pool, x.outer, bytes, [&](int64_t piece, int64_t first, int64_t count) {
    std::memcpy(y.at(piece, y_first + first), x.at(piece, x_first + first), count);
  });
}
void clear(ThreadPool& pool, const Pieces& y, int64_t y_first, int64_t bytes) {
  for_stretches(pool, y.outer, bytes, [&](int64_t piece, int64_t first, int64_t count) {
    std::memset(y.at(piece, y_first + first), 0, count);
  });
}

void slice(const KernelContext& context) {
  const int dim = static_cast<int>(context.attrs.integer("dim"));
  const Pieces x(context.inputs[0], dim), y(context.outputs[0], dim);
  copy(pool_of(context), x, context.attrs.integer("start") * x.step, y, 0, y.bytes);
}

void split(const KernelContext& context) {
  const int dim = static_cast<int>(context.attrs.integer("dim"));
  const Pieces x(context.inputs[0], dim);
  int64_t position = 0;
  for (const TensorView& output : context.outputs) {
    const Pieces y(output, dim);
    copy(pool_of(context), x, position, y, 0, y.bytes);
    position += y.bytes;
  }
  TRIREME_CHECK(position == x.bytes);
}

void concat(const KernelContext& context) {
  const int dim = static_cast<int>(context.attrs.integer("dim"));
  const Pieces y(context.outputs[0], dim);
  int64_t position = 0;
  for (const TensorView& input : context.inputs) {
    const Pieces x(input, dim);
    copy(pool_of(context), x, 0, y, position, x.bytes);
    position += x.bytes;
  }
  TRIREME_CHECK(position == y.bytes);
}

void pad(const KernelContext& context) {
  const int dim = static_cast<int>(context.attrs.integer("dim"));
  const Pieces x(context.inputs[0], dim), y(context.outputs[0], dim);
  const int64_t low = context.attrs.integer("low") * x.step;
  clear(pool_of(context), y, 0, low);
  copy(pool_of(context), x, 0, y, low, x.bytes);
  clear(pool_of(context), y, low + x.bytes, y.bytes - low - x.bytes);
}

void write_at(const KernelContext& context) {
  const Pieces x(context.inputs[0], 1), rows(context.inputs[1], 1), y(context.outputs[0], 1);
  if (x.data != y.data) copy(pool_of(context), x, 0, y, 0, x.bytes);
  const int32_t *lines = context.in<int32_t>(2), *positions = context.in<int32_t>(3);
  const int64_t length = context.inputs[0].shape[1], count = context.inputs[1].shape[1];
  for (int64_t b = 0; b < rows.outer; ++b) {
    if (lines[b] < 0 || lines[b] >= x.outer) continue;
    // Rows that would lie outside are left out.
    const int64_t begin = std::clamp<int64_t>(-int64_t{positions[b]}, 0, count),
                  end = std::clamp<int64_t>(length - positions[b], begin, count);
    std::memcpy(y.at(lines[b], (positions[b] + begin) * y.step), rows.at(b, begin * rows.step),
                static_cast<size_t>((end - begin) * rows.step));
  }
}

}  // namespace

void add_concat(KernelTable& table) {
  add_for_all_dtypes(table, "slice", {slice});
  add_for_all_dtypes(table, "split", {split});
  add_for_all_dtypes(table, "concat", {concat});
  add_for_all_dtypes(table, "pad", {pad});
  add_for_all_dtypes(table, "write_at", {write_at});
}

}  // namespace trireme::cpu
