// The optimizer updates, each one pass over weights, gradients and states. The gradient is g·scale; when
// scale is not finite the step is skipped and every state keeps its value. Scalars are read on the device,
// so that nothing waits for them.
#include <array>
#include <cmath>

#include "trireme/kernels/cuda/device.cuh"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256;

template <int kInputs, int kOutputs>
struct Tensors {
  const float* in[kInputs];
  float* out[kOutputs];
};

// For each element: f.update(values in, values out), after f.prepare() once per thread.
template <int kInputs, int kOutputs, typename F>
__global__ void update_kernel(Tensors<kInputs, kOutputs> tensors, int64_t count, F f) {
  __shared__ F shared;
  if (threadIdx.x == 0) {
    f.prepare();
    shared = f;
  }
  __syncthreads();
  const F prepared = shared;
  const int64_t first = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * 4;
  if (first + 4 <= count) {
    float values[kInputs][4], results[kOutputs][4];
#pragma unroll
    for (int k = 0; k < kInputs; ++k)
      *reinterpret_cast<float4*>(values[k]) = *reinterpret_cast<const float4*>(tensors.in[k] + first);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float from[kInputs], to[kOutputs];
      for (int k = 0; k < kInputs; ++k) from[k] = values[k][j];
      prepared.update(from, to);
      for (int k = 0; k < kOutputs; ++k) results[k][j] = to[k];
    }
#pragma unroll
    for (int k = 0; k < kOutputs; ++k)
      *reinterpret_cast<float4*>(tensors.out[k] + first) = *reinterpret_cast<const float4*>(results[k]);
  } else {
    for (int64_t i = first; i < count; ++i) {
      float from[kInputs], to[kOutputs];
      for (int k = 0; k < kInputs; ++k) from[k] = tensors.in[k][i];
      prepared.update(from, to);
      for (int k = 0; k < kOutputs; ++k) tensors.out[k][i] = to[k];
    }
  }
}

// The first kInputs inputs and all outputs are tensors of one shape; scalars follow.
template <int kInputs, int kOutputs, typename F>
void update(const KernelContext& context, const F& f) {
  Tensors<kInputs, kOutputs> tensors;
  for (int k = 0; k < kInputs; ++k) tensors.in[k] = in<float>(context, k);
  for (int k = 0; k < kOutputs; ++k) tensors.out[k] = out<float>(context, k);
  const int64_t count = context.inputs[0].elements();
  if (count == 0) return;
  update_kernel<<<blocks(ceil_div(count, 4 * kThreads)), kThreads, 0, stream_of(context)>>>(tensors, count,
                                                                                            f);
}

float attr(const KernelContext& context, const char* name, double otherwise) {
  return static_cast<float>(context.attrs.real(name, otherwise));
}
float attr(const KernelContext& context, const char* name) {
  return static_cast<float>(context.attrs.real(name));
}

struct Sgd {
  const float *lr_at, *scale_at;
  float decay, lr, scale;
  __device__ void prepare() {
    lr = *lr_at;
    scale = *scale_at;
  }
  __device__ void update(const float* x, float* y) const {
    y[0] = isfinite(scale) ? fmaf(-lr, fmaf(decay, x[0], x[1] * scale), x[0]) : x[0];
  }
};
void sgd(const KernelContext& context) {
  update<2, 1>(context, Sgd{in<float>(context, 2), in<float>(context, 3), attr(context, "weight_decay", 0)});
}

struct Momentum {
  const float *lr_at, *scale_at;
  float decay, momentum;
  bool nesterov;
  float lr, scale;
  __device__ void prepare() {
    lr = *lr_at;
    scale = *scale_at;
  }
  __device__ void update(const float* x, float* y) const {
    if (!isfinite(scale)) {
      y[0] = x[0];
      y[1] = x[2];
      return;
    }
    const float g = fmaf(decay, x[0], x[1] * scale), u = fmaf(momentum, x[2], g);
    y[0] = fmaf(-lr, nesterov ? fmaf(momentum, u, g) : u, x[0]);
    y[1] = u;
  }
};
void momentum(const KernelContext& context) {
  update<3, 2>(context,
               Momentum{in<float>(context, 3), in<float>(context, 4), attr(context, "weight_decay", 0),
                        attr(context, "momentum"), context.attrs.integer("nesterov", 0) != 0});
}

// The moments of adam and lamb, and the direction m̂ / (√v̂ + eps) they give.
struct Moments {
  const float *scale_at, *step_at;
  double beta1, beta2;
  float eps;
  float scale, correction1, correction2;  // 1 / (1 − beta^step)

  Moments(const KernelContext& context, int scale_input)
      : scale_at(in<float>(context, scale_input)),
        step_at(in<float>(context, scale_input + 1)),
        beta1(context.attrs.real("beta1")),
        beta2(context.attrs.real("beta2")),
        eps(attr(context, "eps")) {}
  Moments() = default;
  __device__ void prepare() {
    const double step = *step_at;
    scale = *scale_at;
    correction1 = static_cast<float>(1 / (1 - pow(beta1, step)));
    correction2 = static_cast<float>(1 / (1 - pow(beta2, step)));
  }
  // Updates m and v by g, which is scaled already.
  __device__ float direction(float g, float* m, float* v) const {
    const float b1 = static_cast<float>(beta1), b2 = static_cast<float>(beta2);
    *m = fmaf(b1, *m, (1 - b1) * g);
    *v = fmaf(b2, *v, (1 - b2) * g * g);
    return *m * correction1 / (sqrtf(*v * correction2) + eps);
  }
};

struct Adam {
  Moments moments;
  const float* lr_at;
  float coupled_decay;    // added to the gradient
  float decoupled_decay;  // taken off the weight: AdamW
  float lr;
  __device__ void prepare() {
    moments.prepare();
    lr = *lr_at;
  }
  __device__ void update(const float* x, float* y) const {
    y[0] = x[0];
    y[1] = x[2];
    y[2] = x[3];
    if (!isfinite(moments.scale)) return;
    const float g = fmaf(coupled_decay, x[0], x[1] * moments.scale);
    const float direction = moments.direction(g, &y[1], &y[2]);
    y[0] = fmaf(-lr, fmaf(decoupled_decay, x[0], direction), x[0]);
  }
};
void adam(const KernelContext& context) {
  const float decay = attr(context, "weight_decay", 0);
  const bool decoupled = context.attrs.integer("decoupled", 1) != 0;
  update<4, 3>(context, Adam{Moments(context, 5), in<float>(context, 4), decoupled ? 0 : decay,
                             decoupled ? decay : 0});
}

struct LambDirection {
  Moments moments;
  float decay;
  __device__ void prepare() { moments.prepare(); }
  __device__ void update(const float* x, float* y) const {
    y[0] = 0;  // the direction of a skipped step: none
    y[1] = x[2];
    y[2] = x[3];
    if (isfinite(moments.scale))
      y[0] = fmaf(decay, x[0], moments.direction(x[1] * moments.scale, &y[1], &y[2]));
  }
};
void lamb_direction(const KernelContext& context) {
  update<4, 3>(context, LambDirection{Moments(context, 4), attr(context, "weight_decay", 0)});
}

struct LambApply {
  const float *w_squares, *r_squares, *lr_at, *scale_at;
  float rate;
  bool keep;
  __device__ void prepare() {
    const double w = sqrt(static_cast<double>(*w_squares)), r = sqrt(static_cast<double>(*r_squares));
    rate = static_cast<float>((w > 0 && r > 0 ? w / r : 1) * *lr_at);
    keep = !isfinite(*scale_at);
  }
  __device__ void update(const float* x, float* y) const { y[0] = keep ? x[0] : fmaf(-rate, x[1], x[0]); }
};
void lamb_apply(const KernelContext& context) {
  update<2, 1>(context, LambApply{in<float>(context, 2), in<float>(context, 3), in<float>(context, 4),
                                  in<float>(context, 5)});
}

struct Lars {
  const float *w_squares, *g_squares, *lr_at, *scale_at;
  double decay, trust;
  float momentum;
  float rate, scale;
  __device__ void prepare() {
    scale = *scale_at;
    const double w = sqrt(static_cast<double>(*w_squares));
    const double g = sqrt(static_cast<double>(*g_squares)) * fabs(static_cast<double>(scale));
    rate = static_cast<float>((w > 0 && g > 0 ? trust * w / (g + decay * w) : 1) * *lr_at);
  }
  __device__ void update(const float* x, float* y) const {
    if (!isfinite(scale)) {
      y[0] = x[0];
      y[1] = x[2];
      return;
    }
    const float g = fmaf(static_cast<float>(decay), x[0], x[1] * scale);
    y[1] = fmaf(momentum, x[2], rate * g);
    y[0] = x[0] - y[1];
  }
};
void lars(const KernelContext& context) {
  update<3, 2>(context, Lars{in<float>(context, 3), in<float>(context, 4), in<float>(context, 5),
                             in<float>(context, 6), context.attrs.real("weight_decay"),
                             context.attrs.real("trust"), attr(context, "momentum")});
}

__global__ void gradient_scale_kernel(const float* squares, const float* count, const float* loss_scale,
                                      double max_norm, float* scale_out, float* norm_out) {
  const double divisor = static_cast<double>(*count) * *loss_scale;
  const double norm = sqrt(static_cast<double>(*squares)) / divisor;
  double scale = 1 / divisor;
  if (max_norm > 0 && norm > max_norm) scale *= max_norm / norm;
  *scale_out = isfinite(norm) ? static_cast<float>(scale) : NAN;
  *norm_out = static_cast<float>(norm);
}
void gradient_scale(const KernelContext& context) {
  gradient_scale_kernel<<<1, 1, 0, stream_of(context)>>>(
      in<float>(context, 0), in<float>(context, 1), in<float>(context, 2), context.attrs.real("max_norm", 0),
      out<float>(context, 0), out<float>(context, 1));
}

}  // namespace

void add_optimizer(KernelTable& table) {
  table.add("adam", DType::f32, {adam});
  table.add("gradient_scale", DType::f32, {gradient_scale});
  table.add("lamb_apply", DType::f32, {lamb_apply});
  table.add("lamb_direction", DType::f32, {lamb_direction});
  table.add("lars", DType::f32, {lars});
  table.add("momentum", DType::f32, {momentum});
  table.add("sgd", DType::f32, {sgd});
}

}  // namespace trireme::cuda
