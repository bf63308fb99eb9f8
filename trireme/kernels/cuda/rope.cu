// rope, rope_at: rotate the pairs (x[j], x[j + d/2]) of the last dim by position · base^(−2j/d). The cosines
// and sines of all positions are made first, in double precision, since every batch and head shares them.
#include "trireme/ir/pieces.h"
#include "trireme/kernels/cuda/device.cuh"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256;

struct Rope {
  int64_t length, heads, half;
  double base, offset, sign;
  const int32_t* positions;  // of the first rows of each batch row, beside the offset; null: none
};

// A table for each batch row that has a position of its own; else one.
__global__ void angles_kernel(Rope r, int64_t tables, float2* angles) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= tables * r.length * r.half) return;
  const int64_t row = i / r.half;
  const double j = static_cast<double>(i % r.half),
               first = r.offset + (r.positions ? r.positions[row / r.length] : 0),
               position = static_cast<double>(row % r.length) + first;
  double sine, cosine;
  sincos(r.sign * position * pow(r.base, -j / static_cast<double>(r.half)), &sine, &cosine);
  angles[i] = {static_cast<float>(cosine), static_cast<float>(sine)};
}

// A thread turns kCount pairs that lie side by side.
template <typename T, int kCount>
__global__ void rotate_kernel(Rope r, const float2* angles, const T* x, T* y, int64_t threads) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  const int64_t runs = r.half / kCount, j = i % runs * kCount, head = i / runs, row = head / r.heads;
  const float2* const angle = angles + (r.positions ? row : row % r.length) * r.half + j;
  const int64_t first = head * 2 * r.half + j;
  float a[kCount], b[kCount], left[kCount], right[kCount];
  load_floats(x + first, a);
  load_floats(x + first + r.half, b);
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    left[k] = a[k] * angle[k].x - b[k] * angle[k].y;
    right[k] = b[k] * angle[k].x + a[k] * angle[k].y;
  }
  store_floats(y + first, left);
  store_floats(y + first + r.half, right);
}

void rotate(const KernelContext& context, const int32_t* positions) {
  const Shape& shape = context.inputs[0].shape;
  if (shape.elements() == 0) return;
  const Attrs& attrs = context.attrs;
  refuse_pieces(attrs);
  const Rope r{shape[1],
               shape.elements(2, shape.rank() - 1),
               shape.back() / 2,
               attrs.real("base"),
               attrs.real("offset", 0),
               attrs.integer("inverse", 0) ? -1.0 : 1.0,
               positions};
  float2* const angles = reinterpret_cast<float2*>(context.workspace);
  const cudaStream_t stream = stream_of(context);
  const int64_t tables = positions ? shape[0] : 1;
  angles_kernel<<<blocks(ceil_div(tables * r.length * r.half, kThreads)), kThreads, 0, stream>>>(r, tables,
                                                                                                 angles);
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    with_pack<T>(r.half, [&](auto pack) {
      const int64_t threads = shape.elements() / 2 / pack;
      rotate_kernel<T, pack><<<blocks(ceil_div(threads, kThreads)), kThreads, 0, stream>>>(
          r, angles, in<T>(context, 0), out<T>(context, 0), threads);
    });
  });
}

void rope(const KernelContext& context) {
  rotate(context, nullptr);
}
void rope_at(const KernelContext& context) {
  rotate(context, in<int32_t>(context, 1));
}

size_t table_bytes(const KernelShape& shape, int64_t tables) {
  const Shape& x = shape.inputs[0].shape;
  return static_cast<size_t>(tables * x[1] * (x.back() / 2)) * sizeof(float2);
}
size_t rope_workspace(const KernelShape& shape) {
  return table_bytes(shape, 1);
}
size_t rope_at_workspace(const KernelShape& shape) {
  return table_bytes(shape, shape.inputs[0].shape[0]);
}

}  // namespace

void add_rope(KernelTable& table) {
  add_for_all_formats(table, "rope", {rope, rope_workspace});
  add_for_all_formats(table, "rope_at", {rope_at, rope_at_workspace});
}

}  // namespace trireme::cuda
