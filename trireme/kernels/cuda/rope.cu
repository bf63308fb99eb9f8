// rope, rope_at: rotate the pairs (x[j], x[j + d/2]) of the last dim by position · base^(−2j/d). The cosines
// and sines of all positions are made first, in double precision, since every batch and head shares them.
#include "trireme/kernels/cuda/device.cuh"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256;

struct Rope {
  int64_t length, heads, half;
  double base, offset, sign;
  const int32_t* position;  // beside the offset; null: none
};

__global__ void angles_kernel(Rope r, float2* angles) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= r.length * r.half) return;
  const double j = static_cast<double>(i % r.half), first = r.offset + (r.position ? *r.position : 0),
               position = static_cast<double>(i / r.half) + first;
  double sine, cosine;
  sincos(r.sign * position * pow(r.base, -j / static_cast<double>(r.half)), &sine, &cosine);
  angles[i] = {static_cast<float>(cosine), static_cast<float>(sine)};
}

// A thread turns kCount pairs that lie side by side.
template <typename T, int kCount>
__global__ void rotate_kernel(Rope r, const float2* angles, const T* x, T* y, int64_t threads) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= threads) return;
  const int64_t runs = r.half / kCount, j = i % runs * kCount, head = i / runs,
                position = head / r.heads % r.length;
  const float2* const angle = angles + position * r.half + j;
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

void rotate(const KernelContext& context, const int32_t* position) {
  const Shape& shape = context.inputs[0].shape;
  if (shape.elements() == 0) return;
  const Attrs& attrs = context.attrs;
  const Rope r{shape[1],
               shape.elements(2, shape.rank() - 1),
               shape.back() / 2,
               attrs.real("base"),
               attrs.real("offset", 0),
               attrs.integer("inverse", 0) ? -1.0 : 1.0,
               position};
  float2* const angles = reinterpret_cast<float2*>(context.workspace);
  const cudaStream_t stream = stream_of(context);
  angles_kernel<<<blocks(ceil_div(r.length * r.half, kThreads)), kThreads, 0, stream>>>(r, angles);
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

size_t rope_workspace(const KernelShape& shape) {
  return static_cast<size_t>(shape.inputs[0].shape[1] * (shape.inputs[0].shape.back() / 2)) * sizeof(float2);
}

}  // namespace

void add_rope(KernelTable& table) {
  add_for_all_formats(table, "rope", {rope, rope_workspace});
  add_for_all_formats(table, "rope_at", {rope_at, rope_workspace});
}

}  // namespace trireme::cuda
