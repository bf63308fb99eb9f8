// add_scaled, residual and renew, element by element in f32: what ranks that agree now and then do between
// their steps.
#include "trireme/kernels/cuda/map.cuh"

namespace trireme::cuda {
namespace {

// clang-format off
struct AddScaled { __device__ float operator()(float x, float y, float s) const { return x + s * y; } };
struct Residual { __device__ float operator()(float x, float sent, float s) const { return (x - sent) / s; } };
struct Renew { __device__ float operator()(float old, float next, float s) const { return isfinite(s) ? next : old; } };
// clang-format on

// z[i] = f(x[i], y[i], *s). z may be x or y.
template <typename F>
__global__ void map_scaled_kernel(const float* x, const float* y, const float* s, float* z, int64_t count,
                                  F f) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) z[i] = f(x[i], y[i], *s);
}

template <typename F>
void map_scaled(const KernelContext& context) {
  const int64_t count = context.outputs[0].elements();
  if (count == 0) return;
  map_scaled_kernel<<<blocks(ceil_div(count, kMapThreads)), kMapThreads, 0, stream_of(context)>>>(
      in<float>(context, 0), in<float>(context, 1), in<float>(context, 2), out<float>(context, 0), count,
      F());
}

}  // namespace

void add_residual(KernelTable& table) {
  table.add("add_scaled", DType::f32, {map_scaled<AddScaled>});
  table.add("residual", DType::f32, {map_scaled<Residual>});
  table.add("renew", DType::f32, {map_scaled<Renew>});
}

}  // namespace trireme::cuda
