// Ops that move elements: by units of 1 to 16 bytes, whatever the elements are. A transpose or broadcast
// looks up for each element of the result where it comes from; slices, splits, concats and pads move
// rectangles of bytes.
#include <algorithm>

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

void gather(const KernelContext& context, const Strides& map) {
  const TensorView& y = context.outputs[0];
  if (y.elements() == 0) return;
  with_unit(static_cast<int64_t>(size_of(y.dtype)), [&](auto unit) {
    using U = decltype(unit);
    const auto launch = [&](auto index) {
      gather_kernel<decltype(index), U>
          <<<blocks(ceil_div(y.elements(), kThreads)), kThreads, 0, stream_of(context)>>>(
              in<U>(context, 0), out<U>(context, 0), static_cast<decltype(index)>(y.elements()), map);
    };
    if (std::max(y.elements(), context.inputs[0].elements()) < int64_t{1} << 31)
      launch(uint32_t{});
    else
      launch(uint64_t{});
  });
}

void transpose(const KernelContext& context) {
  const Shape& x = context.inputs[0].shape;
  const std::vector<int64_t>& perm = context.attrs.integers("perm");
  Strides map;
  map.rank = x.rank();
  for (int d = 0; d < map.rank; ++d) {
    const int from = static_cast<int>(perm[d]);
    map.extents[d] = x[from];
    map.strides[d] = x.elements(from + 1, x.rank());
  }
  gather(context, map);
}

void broadcast(const KernelContext& context) {
  const Shape &x = context.inputs[0].shape, &y = context.outputs[0].shape;
  const std::vector<int64_t>& dims = context.attrs.integers("dims");
  Strides map;
  map.rank = y.rank();
  for (int d = 0; d < map.rank; ++d) {
    map.extents[d] = y[d];
    map.strides[d] = 0;
  }
  for (size_t i = 0; i < dims.size(); ++i)
    map.strides[dims[i]] = x.elements(static_cast<int>(i) + 1, x.rank());
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

// Row s of y is row s − position of `rows` where there is one, otherwise that of x. y may be x.
template <typename U>
__global__ void write_at_kernel(const U* x, const U* rows, const int32_t* position, U* y, int64_t batch,
                                int64_t length, int64_t count, int64_t width) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= batch * length * width) return;
  const int64_t row = i / width % length - *position, b = i / (width * length);
  if (row >= 0 && row < count)
    y[i] = rows[(b * count + row) * width + i % width];
  else if (x != y)
    y[i] = x[i];
}

void write_at(const KernelContext& context) {
  const TensorView& x = context.inputs[0];
  if (x.elements() == 0) return;
  const int64_t bytes = x.shape.elements(2, x.shape.rank()) * static_cast<int64_t>(size_of(x.dtype));
  with_unit(bytes, [&](auto unit) {
    using U = decltype(unit);
    const int64_t width = bytes / int64_t{sizeof(U)};
    write_at_kernel<<<blocks(ceil_div(x.shape[0] * x.shape[1] * width, kThreads)), kThreads, 0,
                      stream_of(context)>>>(in<U>(context, 0), in<U>(context, 1), in<int32_t>(context, 2),
                                            out<U>(context, 0), x.shape[0], x.shape[1],
                                            context.inputs[1].shape[1], width);
  });
}

void add_for_all_dtypes(KernelTable& table, std::string_view op, Kernel kernel) {
  for (DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::i32, DType::u8})
    table.add(op, dtype, kernel);
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
