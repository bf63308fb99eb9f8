// slice, split, concat and pad: stretches of contiguous bytes copied between two tensors that differ in the
// extent of one dim, of any dtype.
#include <cstring>

#include "trireme/kernels/cpu/all_dtypes.h"
#include "trireme/kernels/cpu/grain.h"

namespace trireme::cpu {
namespace {

// A tensor cut at one dim: `outer` pieces of `bytes` contiguous bytes, all of that dim and those inside.
struct Pieces {
  std::byte* data;
  int64_t outer;
  int64_t bytes;

  Pieces(const TensorView& tensor, int dim)
      : data(static_cast<std::byte*>(tensor.data)),
        outer(tensor.shape.elements(0, dim)),
        bytes(tensor.shape.elements(dim, tensor.shape.rank()) * static_cast<int64_t>(size_of(tensor.dtype))) {
  }
};

// Bytes of one index of the dim.
int64_t step_bytes(const TensorView& tensor, int dim) {
  return tensor.shape.elements(dim + 1, tensor.shape.rank()) * static_cast<int64_t>(size_of(tensor.dtype));
}

int64_t piece_grain(int64_t bytes) {
  return row_grain(bytes / static_cast<int64_t>(sizeof(float)));
}

void slice(const KernelContext& context) {
  const int dim = static_cast<int>(context.attrs.integer("dim"));
  const Pieces x(context.inputs[0], dim), y(context.outputs[0], dim);
  const int64_t skip = context.attrs.integer("start") * step_bytes(context.inputs[0], dim);
  context.pool.parallel_for(y.outer, piece_grain(y.bytes), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      std::memcpy(y.data + i * y.bytes, x.data + i * x.bytes + skip, y.bytes);
  });
}

void split(const KernelContext& context) {
  const int dim = static_cast<int>(context.attrs.integer("dim"));
  const Pieces x(context.inputs[0], dim);
  int64_t skip = 0;
  for (const TensorView& output : context.outputs) {
    const Pieces y(output, dim);
    context.pool.parallel_for(y.outer, piece_grain(y.bytes), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(y.data + i * y.bytes, x.data + i * x.bytes + skip, y.bytes);
      }
    });
    skip += y.bytes;
  }
  TRIREME_CHECK(skip == x.bytes);
}

void concat(const KernelContext& context) {
  const int dim = static_cast<int>(context.attrs.integer("dim"));
  const Pieces y(context.outputs[0], dim);
  int64_t skip = 0;
  for (const TensorView& input : context.inputs) {
    const Pieces x(input, dim);
    context.pool.parallel_for(x.outer, piece_grain(x.bytes), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(y.data + i * y.bytes + skip, x.data + i * x.bytes, x.bytes);
      }
    });
    skip += x.bytes;
  }
  TRIREME_CHECK(skip == y.bytes);
}

void pad(const KernelContext& context) {
  const int dim = static_cast<int>(context.attrs.integer("dim"));
  const Pieces x(context.inputs[0], dim), y(context.outputs[0], dim);
  const int64_t low = context.attrs.integer("low") * step_bytes(context.inputs[0], dim);
  context.pool.parallel_for(y.outer, piece_grain(y.bytes), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      std::byte* piece = y.data + i * y.bytes;
      std::memset(piece, 0, low);
      std::memcpy(piece + low, x.data + i * x.bytes, x.bytes);
      std::memset(piece + low + x.bytes, 0, y.bytes - low - x.bytes);
    }
  });
}

}  // namespace

void add_concat(KernelTable& table) {
  add_for_all_dtypes(table, "slice", {slice});
  add_for_all_dtypes(table, "split", {split});
  add_for_all_dtypes(table, "concat", {concat});
  add_for_all_dtypes(table, "pad", {pad});
}

}  // namespace trireme::cpu
