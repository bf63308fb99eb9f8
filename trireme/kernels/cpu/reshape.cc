// reshape, transpose and broadcast: the same elements in another order or shape, of any dtype.
//
// The latter two copy a strided view of a tensor into a dense one. Dims that step together are merged first,
// so that a transpose of any rank becomes rows of contiguous memory or a batch of matrix transposes. Those go
// in tiles, because one side always strides.
#include <algorithm>
#include <array>
#include <cstring>

#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/grain.h"

namespace trireme::cpu {
namespace {

// The step in elements of the input for one step along each dim of the output; 0 repeats.
using Strides = std::array<int64_t, Shape::kMaxDims>;

// The steps of a dense tensor itself.
Strides dense_strides(const Shape& shape) {
  Strides strides{};
  int64_t step = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[i] = step;
    step *= shape[i];
  }
  return strides;
}

constexpr int64_t kTile = 32;  // a tile of floats has 32 cache lines on either side

struct Dim {
  int64_t extent;
  int64_t x_stride;
  int64_t y_stride;
};

// The dims of y but those that the inner loop handles, and the way from a flat index over them to
// offsets in x and y.
struct Geometry {
  std::array<Dim, Shape::kMaxDims> dims{};
  int rank = 0;

  void push(Dim dim) { dims[rank++] = dim; }
  Dim take(int index) {
    const Dim taken = dims[index];
    std::copy(dims.begin() + index + 1, dims.begin() + rank, dims.begin() + index);
    --rank;
    return taken;
  }
  int64_t count() const {
    int64_t product = 1;
    for (int i = 0; i < rank; ++i) product *= dims[i].extent;
    return product;
  }
  struct Offsets {
    int64_t x = 0, y = 0;
  };
  Offsets at(int64_t index) const {
    Offsets offsets;
    for (int i = rank - 1; i >= 0; --i) {
      const int64_t position = index % dims[i].extent;
      index /= dims[i].extent;
      offsets.x += position * dims[i].x_stride;
      offsets.y += position * dims[i].y_stride;
    }
    return offsets;
  }
};

Geometry merged(const Shape& shape, const Strides& x_strides) {
  const Strides y_strides = dense_strides(shape);
  Geometry geometry;
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] == 1) continue;
    const Dim dim{shape[i], x_strides[i], y_strides[i]};
    Dim* last = geometry.rank ? &geometry.dims[geometry.rank - 1] : nullptr;
    if (last && last->x_stride == dim.x_stride * dim.extent) {
      *last = {last->extent * dim.extent, dim.x_stride, dim.y_stride};
    } else {
      geometry.push(dim);
    }
  }
  return geometry;
}

template <typename T>
void copy_rows(const T* x, T* y, Geometry outer, Dim inner, ThreadPool& pool) {
  pool.parallel_for(outer.count(), row_grain(inner.extent), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const auto offset = outer.at(row);
      const T* from = x + offset.x;
      T* to = y + offset.y;
      if (inner.x_stride == 1) {
        std::memcpy(to, from, inner.extent * sizeof(T));
      } else if (inner.x_stride == 0) {
        std::fill_n(to, inner.extent, *from);
      } else {
        for (int64_t i = 0; i < inner.extent; ++i) to[i] = from[i * inner.x_stride];
      }
    }
  });
}

// x is contiguous along `column`, y along `row`.
template <typename T>
void copy_tiles(const T* x, T* y, Geometry outer, Dim column, Dim row, ThreadPool& pool) {
  const int64_t bands = (column.extent + kTile - 1) / kTile;
  pool.parallel_for(outer.count() * bands, row_grain(kTile * row.extent), [&](int64_t begin, int64_t end) {
    for (int64_t band = begin; band < end; ++band) {
      const auto offset = outer.at(band / bands);
      const int64_t c_begin = band % bands * kTile, c_end = std::min(c_begin + kTile, column.extent);
      for (int64_t r_begin = 0; r_begin < row.extent; r_begin += kTile) {
        const int64_t r_end = std::min(r_begin + kTile, row.extent);
        for (int64_t c = c_begin; c < c_end; ++c) {
          const T* from = x + offset.x + c;
          T* to = y + offset.y + c * column.y_stride;
          for (int64_t r = r_begin; r < r_end; ++r) to[r] = from[r * row.x_stride];
        }
      }
    }
  });
}

template <typename T>
void copy(const void* x, const Strides& strides, const TensorView& y, ThreadPool& pool) {
  if (y.elements() == 0) return;
  const T* from = static_cast<const T*>(x);
  T* to = static_cast<T*>(y.data);
  Geometry outer = merged(y.shape, strides);
  if (outer.rank == 0) {
    *to = *from;
    return;
  }
  const Dim inner = outer.take(outer.rank - 1);
  if (inner.x_stride > 1) {
    for (int i = 0; i < outer.rank; ++i) {
      if (outer.dims[i].x_stride != 1) continue;
      const Dim column = outer.take(i);
      return copy_tiles(from, to, outer, column, inner, pool);
    }
  }
  copy_rows(from, to, outer, inner, pool);
}

// y[i…] = x[sum i·stride]. Both have elements of the same size.
void strided_copy(const void* x, const Strides& strides, const TensorView& y, ThreadPool& pool) {
  switch (size_of(y.dtype)) {
    case 1:
      return copy<uint8_t>(x, strides, y, pool);
    case 2:
      return copy<uint16_t>(x, strides, y, pool);
    case 4:
      return copy<uint32_t>(x, strides, y, pool);
    case 8:
      return copy<uint64_t>(x, strides, y, pool);
  }
}

// A reshape that could not be planned away; where the planner gave both the same memory it is free.
void reshape(const KernelContext& context) {
  const TensorView& x = context.inputs[0];
  const TensorView& y = context.outputs[0];
  TRIREME_CHECK(x.bytes() == y.bytes());
  if (x.data == y.data) return;
  pool_of(context).parallel_for(x.bytes(), kElementGrain * sizeof(float), [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<std::byte*>(y.data) + begin, static_cast<std::byte*>(x.data) + begin,
                end - begin);
  });
}

void transpose(const KernelContext& context) {
  const Strides of_x = dense_strides(context.inputs[0].shape);
  const auto& perm = context.attrs.integers("perm");
  Strides strides{};
  for (size_t i = 0; i < perm.size(); ++i) strides[i] = of_x[perm[i]];
  strided_copy(context.inputs[0].data, strides, context.outputs[0], pool_of(context));
}

void broadcast(const KernelContext& context) {
  const Strides of_x = dense_strides(context.inputs[0].shape);
  const auto& dims = context.attrs.integers("dims");
  Strides strides{};
  for (size_t i = 0; i < dims.size(); ++i) strides[dims[i]] = of_x[i];
  strided_copy(context.inputs[0].data, strides, context.outputs[0], pool_of(context));
}

}  // namespace

void add_reshape(KernelTable& table) {
  add_for_all_dtypes(table, "reshape", {reshape});
  add_for_all_dtypes(table, "transpose", {transpose});
  add_for_all_dtypes(table, "broadcast", {broadcast});
}

}  // namespace trireme::cpu
