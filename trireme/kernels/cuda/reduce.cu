// Reductions over any dims. Where the innermost dims are reduced a block takes one result; where they are
// kept a warp takes 32 neighbouring results, so that reads stay together. Few results are cut in parts, which
// a second launch adds in order: how many is a function of the shape alone, and so are the bits.
#include <algorithm>
#include <ranges>

#include "trireme/kernels/cuda/device.cuh"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256, kColumns = 32, kRows = kThreads / kColumns, kCombineThreads = 512;
constexpr int64_t kWantedBlocks = 1024, kLeastOfPart = 1024;

// Dims that are all kept or all reduced, neighbours merged, innermost first.
struct Dims {
  int size = 0;
  int64_t count = 1;
  int64_t extents[Shape::kMaxDims], strides[Shape::kMaxDims];

  __device__ int64_t offset(int64_t index) const {
    if (size == 1) return index * strides[0];
    int64_t result = 0;
    for (int d = 0; d < size; ++d) {
      result += index % extents[d] * strides[d];
      index /= extents[d];
    }
    return result;
  }
};

struct Geometry {
  Dims kept, reduced;
  bool inner_is_reduced = true;
  int64_t parts = 1;

  Geometry(const Shape& shape, std::span<const int64_t> dims) {
    int64_t stride = 1;
    bool innermost = true;
    for (int dim = shape.rank() - 1; dim >= 0;) {
      const bool is_reduced = std::ranges::find(dims, dim) != dims.end();
      int64_t extent = 1;
      for (; dim >= 0 && (std::ranges::find(dims, dim) != dims.end()) == is_reduced; --dim)
        extent *= shape[dim];
      Dims& to = is_reduced ? reduced : kept;
      to.extents[to.size] = extent;
      to.strides[to.size++] = stride;
      to.count *= extent;
      if (innermost) inner_is_reduced = is_reduced;
      innermost = false;
      stride *= extent;
    }
    const int64_t at_once =
        inner_is_reduced ? kept.count : ceil_div(kept.count, is_matrix() ? 256 : kColumns);
    const int64_t most = std::max<int64_t>(1, reduced.count / (inner_is_reduced ? kLeastOfPart : kRows * 8));
    parts = std::clamp<int64_t>(kWantedBlocks / std::max<int64_t>(1, at_once), 1, most);
  }
  // The columns of a matrix are reduced.
  bool is_matrix() const { return !inner_is_reduced && kept.size == 1 && reduced.size == 1; }
};

struct SumOf {
  static constexpr bool kIsMax = false;
  __device__ float prepared(float x) const { return x; }
};
struct SquaresOf {
  static constexpr bool kIsMax = false;
  __device__ float prepared(float x) const { return x * x; }
};
struct MaxOf {
  static constexpr bool kIsMax = true;
  __device__ float prepared(float x) const { return x; }
};
template <typename Op>
__device__ float start() {
  return Op::kIsMax ? -INFINITY : 0.0f;
}
template <typename Op>
__device__ float combined(float a, float b) {
  if constexpr (Op::kIsMax)
    return Max()(a, b);
  else
    return a + b;
}

// Results go to y, or to partial[part][result] where there are several parts.
template <typename T, typename Y>
struct Target {
  const T* x;
  Y* y;
  float* partial;
  float factor;
  __device__ void store(int64_t part, int64_t result, int64_t results, float value) const {
    if (partial)
      partial[part * results + result] = value;
    else
      y[result] = narrow<Y>(value * factor);
  }
};

template <typename Op, typename T, typename Y>
__global__ void reduce_rows(Target<T, Y> target, Geometry g) {
  const int64_t result = blockIdx.x, each = (g.reduced.count + g.parts - 1) / g.parts;
  const int64_t first = blockIdx.y * each, last = min(first + each, g.reduced.count);
  const int64_t base = g.kept.offset(result);
  float value = start<Op>();
  for (int64_t i = first + threadIdx.x; i < last; i += blockDim.x)
    value = combined<Op>(value, Op().prepared(widen(target.x[base + g.reduced.offset(i)])));
  if constexpr (Op::kIsMax)
    value = block_max(value);
  else
    value = block_sum(value);
  if (threadIdx.x == 0) target.store(blockIdx.y, result, g.kept.count, value);
}

// Few elements: a warp for each result.
template <typename Op, typename T, typename Y>
__global__ void reduce_short_rows(Target<T, Y> target, Geometry g) {
  const int64_t result = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (result >= g.kept.count) return;
  const int64_t base = g.kept.offset(result);
  float value = start<Op>();
  for (int64_t i = threadIdx.x % 32; i < g.reduced.count; i += 32)
    value = combined<Op>(value, Op().prepared(widen(target.x[base + g.reduced.offset(i)])));
  if constexpr (Op::kIsMax)
    value = warp_reduce(value, Max());
  else
    value = warp_reduce(value, Add());
  if (threadIdx.x % 32 == 0) target.store(0, result, g.kept.count, value);
}

template <typename Op, typename T, typename Y>
__global__ void reduce_columns(Target<T, Y> target, Geometry g) {
  __shared__ float rows[kRows][kColumns];
  const int column = threadIdx.x % kColumns, row = threadIdx.x / kColumns;
  const int64_t result = int64_t{blockIdx.x} * kColumns + column;
  const int64_t each = (g.reduced.count + g.parts - 1) / g.parts;
  const int64_t first = blockIdx.y * each, last = min(first + each, g.reduced.count);
  float value = start<Op>();
  if (result < g.kept.count) {
    const int64_t base = g.kept.offset(result);
    for (int64_t i = first + row; i < last; i += kRows)
      value = combined<Op>(value, Op().prepared(widen(target.x[base + g.reduced.offset(i)])));
  }
  rows[row][column] = value;
  __syncthreads();
  if (row > 0 || result >= g.kept.count) return;
  for (int r = 1; r < kRows; ++r) value = combined<Op>(value, rows[r][column]);
  target.store(blockIdx.y, result, g.kept.count, value);
}

// The columns of a matrix, of which each thread takes a pack: a bias' gradient.
template <typename Op, typename T, typename Y>
__global__ void reduce_packed_columns(Target<T, Y> target, Geometry g) {
  constexpr int kCount = kPack<T>;
  __shared__ float rows[kRows][kColumns * kCount];
  const int lane = threadIdx.x % kColumns, line = threadIdx.x / kColumns;
  const int64_t result = (int64_t{blockIdx.x} * kColumns + lane) * kCount, width = g.kept.count;
  const int64_t each = (g.reduced.count + g.parts - 1) / g.parts;
  const int64_t first = blockIdx.y * each, last = min(first + each, g.reduced.count);
  float values[kCount];
  for (int j = 0; j < kCount; ++j) values[j] = start<Op>();
  if (result < width) {
#pragma unroll 4
    for (int64_t i = first + line; i < last; i += kRows) {
      const Pack<T> pack = load_pack(target.x + i * width + result);
#pragma unroll
      for (int j = 0; j < kCount; ++j) values[j] = combined<Op>(values[j], Op().prepared(widen(pack.at[j])));
    }
  }
#pragma unroll
  for (int j = 0; j < kCount; ++j) rows[line][j * kColumns + lane] = values[j];
  __syncthreads();
  if (line > 0 || result >= width) return;
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    for (int r = 1; r < kRows; ++r) values[j] = combined<Op>(values[j], rows[r][j * kColumns + lane]);
    target.store(blockIdx.y, result + j, width, values[j]);
  }
}

template <typename Op, typename Y>
__global__ void combine_parts(const float* partial, int64_t parts, int64_t results, Y* y, float factor) {
  constexpr int kLines = kCombineThreads / kColumns;
  __shared__ float lines[kLines][kColumns];
  const int lane = threadIdx.x % kColumns, line = threadIdx.x / kColumns;
  const int64_t result = int64_t{blockIdx.x} * kColumns + lane;
  float value = start<Op>();
  if (result < results) {
    for (int64_t part = line; part < parts; part += kLines)
      value = combined<Op>(value, partial[part * results + result]);
  }
  lines[line][lane] = value;
  __syncthreads();
  if (line > 0 || result >= results) return;
  for (int i = 1; i < kLines; ++i) value = combined<Op>(value, lines[i][lane]);
  y[result] = narrow<Y>(value * factor);
}

template <typename Op, typename T, typename Y>
void reduce(const KernelContext& context, const Geometry& g, double factor) {
  if (g.kept.count == 0) return;
  float* const partial = g.parts > 1 ? reinterpret_cast<float*>(context.workspace) : nullptr;
  const Target<T, Y> target{in<T>(context, 0), out<Y>(context, 0), partial, static_cast<float>(factor)};
  const cudaStream_t stream = stream_of(context);
  if (g.inner_is_reduced && g.reduced.count <= 256) {
    reduce_short_rows<Op><<<blocks(ceil_div(g.kept.count * 32, kThreads)), kThreads, 0, stream>>>(target, g);
  } else if (g.inner_is_reduced) {
    reduce_rows<Op><<<dim3(blocks(g.kept.count), blocks(g.parts)), kThreads, 0, stream>>>(target, g);
  } else if (g.is_matrix() && g.kept.count % kPack<T> == 0) {
    const dim3 grid(blocks(ceil_div(g.kept.count, kColumns * kPack<T>)), blocks(g.parts));
    reduce_packed_columns<Op><<<grid, kThreads, 0, stream>>>(target, g);
  } else {
    reduce_columns<Op>
        <<<dim3(blocks(ceil_div(g.kept.count, kColumns)), blocks(g.parts)), kThreads, 0, stream>>>(target, g);
  }
  if (partial)
    combine_parts<Op><<<blocks(ceil_div(g.kept.count, kColumns)), kCombineThreads, 0, stream>>>(
        partial, g.parts, g.kept.count, out<Y>(context, 0), static_cast<float>(factor));
}

template <typename Op>
void reduce_dims(const KernelContext& context, double factor) {
  const Geometry g(context.inputs[0].shape, context.attrs.integers("dims"));
  with_format(context.inputs[0].dtype,
              [&](auto zero) { reduce<Op, decltype(zero), decltype(zero)>(context, g, factor); });
}
void sum(const KernelContext& context) {
  reduce_dims<SumOf>(context, 1);
}
void largest(const KernelContext& context) {
  reduce_dims<MaxOf>(context, 1);
}
void mean(const KernelContext& context) {
  const double count = static_cast<double>(context.inputs[0].elements()) /
                       static_cast<double>(std::max<int64_t>(1, context.outputs[0].elements()));
  reduce_dims<SumOf>(context, 1 / count);
}

// The whole tensor as one dim.
Geometry whole(const Shape& shape) {
  constexpr int64_t kFirst[] = {0};
  return Geometry(Shape{shape.elements()}, kFirst);
}
void sum_squares(const KernelContext& context) {
  with_format(context.inputs[0].dtype, [&](auto zero) {
    reduce<SquaresOf, decltype(zero), float>(context, whole(context.inputs[0].shape), 1);
  });
}

size_t partial_bytes(const Geometry& g) {
  return g.parts > 1 ? static_cast<size_t>(g.parts * g.kept.count) * sizeof(float) : 0;
}
size_t reduce_workspace(const KernelShape& shape) {
  return partial_bytes(Geometry(shape.inputs[0].shape, shape.attrs.integers("dims")));
}
size_t sum_squares_workspace(const KernelShape& shape) {
  return partial_bytes(whole(shape.inputs[0].shape));
}

template <typename T>
__global__ void max_grad_kernel(const T* dy, const T* x, const T* y, T* dx, Geometry g) {
  const int64_t result = blockIdx.x, base = g.kept.offset(result);
  const float best = widen(y[result]);
  float ties = 0;
  for (int64_t i = threadIdx.x; i < g.reduced.count; i += blockDim.x)
    ties += widen(x[base + g.reduced.offset(i)]) == best ? 1 : 0;
  const T share = narrow<T>(widen(dy[result]) / fmaxf(1, block_sum(ties)));
  for (int64_t i = threadIdx.x; i < g.reduced.count; i += blockDim.x) {
    const int64_t at = base + g.reduced.offset(i);
    dx[at] = widen(x[at]) == best ? share : narrow<T>(0);
  }
}

void max_grad(const KernelContext& context) {
  const Geometry g(context.inputs[1].shape, context.attrs.integers("dims"));
  if (g.kept.count == 0) return;
  with_format(context.inputs[1].dtype, [&](auto zero) {
    using T = decltype(zero);
    max_grad_kernel<<<blocks(g.kept.count), 128, 0, stream_of(context)>>>(
        in<T>(context, 0), in<T>(context, 1), in<T>(context, 2), out<T>(context, 0), g);
  });
}

}  // namespace

void add_reduce(KernelTable& table) {
  add_for_all_formats(table, "max", {largest, reduce_workspace});
  add_for_all_formats(table, "max_grad", {max_grad});
  add_for_all_formats(table, "mean", {mean, reduce_workspace});
  add_for_all_formats(table, "sum", {sum, reduce_workspace});
  add_for_all_formats(table, "sum_squares", {sum_squares, sum_squares_workspace});
}

}  // namespace trireme::cuda
