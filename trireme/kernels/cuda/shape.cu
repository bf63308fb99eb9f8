// Ops that move elements: by units of 1 to 16 bytes, whatever the elements are. A transpose or broadcast
// looks up for each unit of the result where it comes from; where the last dim moves, a transpose goes by
// tiles through shared memory, or by small matrices as a whole, so that both sides are touched in runs.
// Slices, splits, concats and pads move rectangles of bytes.
#include <algorithm>
#include <numeric>

#include "trireme/kernels/cuda/device.cuh"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256;

template <typename Body>
void with_unit(int64_t bytes, const Body& body) {
  if (bytes % 16 == 0) return body(uint4{});
  if (bytes % 8 == 0) return body(uint64_t{});
  if (bytes % 4 == 0) return body(uint32_t{});
  if (bytes % 2 == 0) return body(uint16_t{});
  body(uint8_t{});
}

// Element i of y is element Σ index_d · stride_d of x.
struct Strides {
  int rank = 0;
  int64_t extents[Shape::kMaxDims], strides[Shape::kMaxDims];

  // The next dim of y. Where it lies in x right behind the one before, the two are one.
  void add(int64_t extent, int64_t stride) {
    if (extent == 1) return;
    if (rank > 0 && strides[rank - 1] == extent * stride) {
      extents[rank - 1] *= extent;
      strides[rank - 1] = stride;
      return;
    }
    extents[rank] = extent;
    strides[rank++] = stride;
  }
  bool keeps_runs() const { return rank > 0 && strides[rank - 1] == 1; }
};

// Index: as wide as the tensors ask for; most divide four times as fast in 32 bits.
template <typename Index, typename U>
__global__ void gather_kernel(const U* x, U* y, Index count, Strides map) {
  const Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  Index left = i, from = 0;
  for (int d = map.rank - 1; d >= 0; --d) {
    const Index extent = static_cast<Index>(map.extents[d]);
    from += left % extent * static_cast<Index>(map.strides[d]);
    left /= extent;
  }
  y[i] = x[from];
}

void gather(const KernelContext& context, Strides map) {
  const TensorView& y = context.outputs[0];
  if (y.elements() == 0) return;
  const int64_t size = static_cast<int64_t>(size_of(y.dtype));
  int64_t common = size;  // that all runs and distances are multiples of, in bytes
  if (map.keeps_runs()) {
    common = map.extents[map.rank - 1] * size;
    for (int d = 0; d + 1 < map.rank; ++d) common = std::gcd(common, map.strides[d] * size);
  }
  with_unit(common, [&](auto unit) {
    using U = decltype(unit);
    const int64_t elements = int64_t{sizeof(U)} / size, count = y.elements() / elements;
    if (elements > 1) {
      map.extents[map.rank - 1] /= elements;
      for (int d = 0; d + 1 < map.rank; ++d) map.strides[d] /= elements;
    }
    const auto launch = [&](auto index) {
      gather_kernel<decltype(index), U>
          <<<blocks(ceil_div(count, kThreads)), kThreads, 0, stream_of(context)>>>(
              in<U>(context, 0), out<U>(context, 0), static_cast<decltype(index)>(count), map);
    };
    if (std::max(y.elements(), context.inputs[0].elements()) < int64_t{1} << 31)
      launch(uint32_t{});
    else
      launch(uint64_t{});
  });
}

constexpr int kTile = 32, kTileLines = 8;

// A transpose that moves the last dim: matrices [columns, rows] of x, row after row in memory, become [rows,
// columns] of y, one for each index of the other dims.
struct Matrices {
  int64_t rows, row_step;        // of y, which are the last dim of x; from one to the next in y
  int64_t columns, column_step;  // the last dim of y; from one to the next in x
  Strides others;                // where a matrix begins in x
  int64_t others_in_y[Shape::kMaxDims];
};

template <typename U>
__global__ void transpose_kernel(const U* x, U* y, Matrices m, int64_t row_tiles, int64_t column_tiles) {
  __shared__ U tile[kTile][kTile + 1];
  int64_t left = blockIdx.x;
  const int64_t row = left % row_tiles * kTile, column = left / row_tiles % column_tiles * kTile;
  left /= row_tiles * column_tiles;
  for (int d = m.others.rank - 1; d >= 0; --d) {
    const int64_t index = left % m.others.extents[d];
    x += index * m.others.strides[d];
    y += index * m.others_in_y[d];
    left /= m.others.extents[d];
  }
  const int lane = threadIdx.x % kTile, line = threadIdx.x / kTile;
  for (int i = line; i < kTile; i += kTileLines) {
    if (column + i < m.columns && row + lane < m.rows)
      tile[i][lane] = x[(column + i) * m.column_step + row + lane];
  }
  __syncthreads();
  for (int i = line; i < kTile; i += kTileLines) {
    if (row + i < m.rows && column + lane < m.columns)
      y[(row + i) * m.row_step + column + lane] = tile[lane][i];
  }
}

// Matrices that follow one another in x and in y alike, each small enough for shared memory: weights of
// convolutions. Rows are apart by an odd number of words there, so that a column is in different banks.
template <typename U>
__global__ void transpose_whole_kernel(const U* x, U* y, int rows, int columns, int pitch) {
  extern __shared__ __align__(16) unsigned char shared[];
  U* const matrix = reinterpret_cast<U*>(shared);
  const int count = rows * columns;
  x += int64_t{blockIdx.x} * count;
  y += int64_t{blockIdx.x} * count;
  for (int i = threadIdx.x; i < count; i += blockDim.x) matrix[i / rows * pitch + i % rows] = x[i];
  __syncthreads();
  for (int i = threadIdx.x; i < count; i += blockDim.x) y[i] = matrix[i % columns * pitch + i / columns];
}

bool transpose_whole(const KernelContext& context, const Matrices& m) {
  const TensorView& y = context.outputs[0];
  const int64_t count = m.rows * m.columns, size = static_cast<int64_t>(size_of(y.dtype));
  const int64_t words = ceil_div(m.rows * size, 4) | 1, pitch = size > 4 ? m.rows : words * 4 / size;
  const bool fits_tiles = std::min(m.rows, m.columns) >= kTile || count < kThreads;
  const bool follow = m.row_step == m.columns && m.column_step == m.rows &&
                      (m.others.rank == 0 ||
                       (m.others.rank == 1 && m.others.strides[0] == count && m.others_in_y[0] == count));
  constexpr int64_t kMostShared = int64_t{48} << 10;
  if (fits_tiles || !follow || m.columns * pitch * size > kMostShared) return false;
  with_unit(size, [&](auto unit) {
    using U = decltype(unit);
    transpose_whole_kernel<U>
        <<<blocks(y.elements() / count), kThreads, static_cast<size_t>(m.columns * pitch * size),
           stream_of(context)>>>(in<U>(context, 0), out<U>(context, 0), static_cast<int>(m.rows),
                                 static_cast<int>(m.columns), static_cast<int>(pitch));
  });
  return true;
}

// Says whether it did: not where tiles would be nearly empty.
bool transpose_by_tiles(const KernelContext& context, const Strides& map) {
  constexpr int64_t kFewest = 8;
  if (map.rank < 2 || map.keeps_runs()) return false;
  const int last = map.rank - 1;
  Matrices m{.rows = 0, .columns = map.extents[last], .column_step = map.strides[last]};
  int64_t step = map.extents[last];  // of dim d in y
  for (int d = last - 1; d >= 0; step *= map.extents[d--]) {
    if (map.strides[d] == 1) {
      m.rows = map.extents[d];
      m.row_step = step;
    } else {
      m.others.extents[m.others.rank] = map.extents[d];
      m.others.strides[m.others.rank] = map.strides[d];
      m.others_in_y[m.others.rank++] = step;
    }
  }
  if (m.rows == 0) return false;
  if (transpose_whole(context, m)) return true;
  if (m.rows < kFewest || m.columns < kFewest) return false;
  const int64_t row_tiles = ceil_div(m.rows, kTile), column_tiles = ceil_div(m.columns, kTile);
  const TensorView& y = context.outputs[0];
  const int64_t matrices = y.elements() / (m.rows * m.columns);
  with_unit(static_cast<int64_t>(size_of(y.dtype)), [&](auto unit) {
    using U = decltype(unit);
    transpose_kernel<U>
        <<<blocks(matrices * row_tiles * column_tiles), kTile * kTileLines, 0, stream_of(context)>>>(
            in<U>(context, 0), out<U>(context, 0), m, row_tiles, column_tiles);
  });
  return true;
}

void transpose(const KernelContext& context) {
  const Shape& x = context.inputs[0].shape;
  if (x.elements() == 0) return;
  Strides map;
  for (int64_t from : context.attrs.integers("perm"))
    map.add(x[static_cast<int>(from)], x.elements(static_cast<int>(from) + 1, x.rank()));
  if (!transpose_by_tiles(context, map)) gather(context, map);
}

void broadcast(const KernelContext& context) {
  const Shape &x = context.inputs[0].shape, &y = context.outputs[0].shape;
  const std::vector<int64_t>& dims = context.attrs.integers("dims");
  std::vector<int64_t> strides(static_cast<size_t>(y.rank()), 0);
  for (size_t i = 0; i < dims.size(); ++i)
    strides[static_cast<size_t>(dims[i])] = x.elements(static_cast<int>(i) + 1, x.rank());
  Strides map;
  for (int d = 0; d < y.rank(); ++d) map.add(y[d], strides[static_cast<size_t>(d)]);
  gather(context, map);
}

void reshape(const KernelContext& context) {
  check(cudaMemcpyAsync(context.outputs[0].data, context.inputs[0].data, context.inputs[0].bytes(),
                        cudaMemcpyDeviceToDevice, stream_of(context)),
        "a copy on the device");
}

// `rows` runs of `bytes` bytes, `x_pitch` and `y_pitch` bytes apart; no x: zeros.
struct Rectangle {
  const std::byte* x;
  std::byte* y;
  int64_t rows, bytes, x_pitch, y_pitch;
};

template <typename U>
__global__ void copy_kernel(Rectangle r) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x, width = r.bytes / int64_t{sizeof(U)};
  if (i >= r.rows * width) return;
  const int64_t row = i / width, column = i % width;
  U value{};
  if (r.x) value = reinterpret_cast<const U*>(r.x + row * r.x_pitch)[column];
  reinterpret_cast<U*>(r.y + row * r.y_pitch)[column] = value;
}

void copy(const KernelContext& context, const Rectangle& r) {
  if (r.rows == 0 || r.bytes == 0) return;
  const int64_t places = r.bytes | r.x_pitch | r.y_pitch |
                         static_cast<int64_t>(reinterpret_cast<uintptr_t>(r.x)) |
                         static_cast<int64_t>(reinterpret_cast<uintptr_t>(r.y));
  with_unit(places, [&](auto unit) {
    using U = decltype(unit);
    copy_kernel<U><<<blocks(ceil_div(r.rows * r.bytes / int64_t{sizeof(U)}, kThreads)), kThreads, 0,
                     stream_of(context)>>>(r);
  });
}

// A tensor cut along a dim: what lies before that dim, and the bytes of one step along it.
struct Cut {
  std::byte* data;
  int64_t outer, step, row;
  Cut(const TensorView& view, int dim)
      : data(static_cast<std::byte*>(view.data)),
        outer(view.shape.elements(0, dim)),
        step(view.shape.elements(dim + 1, view.shape.rank()) * static_cast<int64_t>(size_of(view.dtype))),
        row(step * view.shape[dim]) {}
};

int dim_of(const KernelContext& context) {
  return static_cast<int>(context.attrs.integer("dim"));
}

void slice(const KernelContext& context) {
  const Cut x(context.inputs[0], dim_of(context)), y(context.outputs[0], dim_of(context));
  copy(context, {x.data + context.attrs.integer("start") * x.step, y.data, x.outer, y.row, x.row, y.row});
}

void split(const KernelContext& context) {
  const Cut x(context.inputs[0], dim_of(context));
  int64_t at = 0;
  for (const TensorView& part : context.outputs) {
    const Cut y(part, dim_of(context));
    copy(context, {x.data + at, y.data, x.outer, y.row, x.row, y.row});
    at += y.row;
  }
}

void concat(const KernelContext& context) {
  const Cut y(context.outputs[0], dim_of(context));
  int64_t at = 0;
  for (const TensorView& part : context.inputs) {
    const Cut x(part, dim_of(context));
    copy(context, {x.data, y.data + at, x.outer, x.row, x.row, y.row});
    at += x.row;
  }
}

void pad(const KernelContext& context) {
  const Cut x(context.inputs[0], dim_of(context)), y(context.outputs[0], dim_of(context));
  const int64_t low = context.attrs.integer("low") * y.step, high = y.row - low - x.row;
  copy(context, {nullptr, y.data, y.outer, low, 0, y.row});
  copy(context, {x.data, y.data + low, y.outer, x.row, x.row, y.row});
  copy(context, {nullptr, y.data + low + x.row, y.outer, high, 0, y.row});
}

// Row t of rows[b] becomes row position[b] + t of line[b] of y, where there is one.
template <typename U>
__global__ void write_at_kernel(const U* rows, const int32_t* lines, const int32_t* positions, U* y,
                                int64_t batch, int64_t count, int64_t all_lines, int64_t length,
                                int64_t width) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= batch * count * width) return;
  const int64_t b = i / (count * width), row = i / width % count + positions[b], line = lines[b];
  if (row >= 0 && row < length && line >= 0 && line < all_lines)
    y[(line * length + row) * width + i % width] = rows[i];
}

void write_at(const KernelContext& context) {
  const TensorView &x = context.inputs[0], &rows = context.inputs[1], &y = context.outputs[0];
  if (x.elements() == 0) return;
  if (x.data != y.data)
    check(cudaMemcpyAsync(y.data, x.data, static_cast<size_t>(x.elements()) * size_of(x.dtype),
                          cudaMemcpyDeviceToDevice, stream_of(context)),
          "copying what rows are written into");
  const int64_t bytes = x.shape.elements(2, x.shape.rank()) * static_cast<int64_t>(size_of(x.dtype));
  if (rows.elements() == 0) return;
  with_unit(bytes, [&](auto unit) {
    using U = decltype(unit);
    const int64_t width = bytes / int64_t{sizeof(U)};
    write_at_kernel<<<blocks(ceil_div(rows.shape[0] * rows.shape[1] * width, kThreads)), kThreads, 0,
                      stream_of(context)>>>(in<U>(context, 1), in<int32_t>(context, 2),
                                            in<int32_t>(context, 3), out<U>(context, 0), rows.shape[0],
                                            rows.shape[1], x.shape[0], x.shape[1], width);
  });
}

}  // namespace

void add_shape(KernelTable& table) {
  add_for_all_dtypes(table, "broadcast", {broadcast});
  add_for_all_dtypes(table, "concat", {concat});
  add_for_all_dtypes(table, "pad", {pad});
  add_for_all_dtypes(table, "reshape", {reshape});
  add_for_all_dtypes(table, "slice", {slice});
  add_for_all_dtypes(table, "split", {split});
  add_for_all_dtypes(table, "transpose", {transpose});
  add_for_all_dtypes(table, "write_at", {write_at});
}

}  // namespace trireme::cuda
