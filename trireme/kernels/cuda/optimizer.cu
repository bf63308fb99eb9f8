// The optimizer updates, each one pass over weights, gradients and states. The gradient is g·scale; when
// scale is not finite the step is skipped and every state keeps its value. Scalars are read on the device,
// so that nothing waits for them.
#include <array>
#include <cmath>

#include "trireme/kernels/cuda/many.cuh"

namespace trireme::cuda {
namespace {

constexpr int kGradient = 1;  // the input that may be in 16 bits

// The update of one tensor: for each element f.update(values in, values out), after f.prepare() once per
// block. A block takes enough elements to be worth its preparation. All is f32 but the gradient, which is G.
template <int kInputs, int kOutputs, typename F, typename G>
struct Update {
  static constexpr int kThreads = 256, kRounds = 8, kOfBlock = 4 * kThreads * kRounds;
  const float* in[kInputs];  // at kGradient: null
  const G* gradient;
  float* out[kOutputs];
  G* rounded;  // the first result in the gradient's format; may be null
  int64_t count;
  F f;

  int64_t blocks() const { return ceil_div(count, kOfBlock); }
  __device__ void run(int64_t block) const {
    __shared__ F shared;
    if (threadIdx.x == 0) {
      F mine = f;
      mine.prepare();
      shared = mine;
    }
    __syncthreads();
    const F prepared = shared;
#pragma unroll 2
    for (int round = 0; round < kRounds; ++round) {
      const int64_t first = block * kOfBlock + (round * kThreads + threadIdx.x) * 4;
      if (first + 4 <= count)
        update_four(prepared, first);
      else
        for (int64_t i = first; i < count; ++i) update_one(prepared, i);
    }
  }

 private:
  struct alignas(4 * sizeof(G)) Four {
    G at[4];
  };
  __device__ void update_four(const F& prepared, int64_t first) const {
    float values[kInputs][4], results[kOutputs][4];
    const Four gradients = *reinterpret_cast<const Four*>(gradient + first);
#pragma unroll
    for (int k = 0; k < kInputs; ++k) {
      if (k != kGradient)
        *reinterpret_cast<float4*>(values[k]) = *reinterpret_cast<const float4*>(in[k] + first);
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float from[kInputs], to[kOutputs];
      for (int k = 0; k < kInputs; ++k) from[k] = k == kGradient ? widen(gradients.at[j]) : values[k][j];
      prepared.update(from, to);
      for (int k = 0; k < kOutputs; ++k) results[k][j] = to[k];
    }
#pragma unroll
    for (int k = 0; k < kOutputs; ++k)
      *reinterpret_cast<float4*>(out[k] + first) = *reinterpret_cast<const float4*>(results[k]);
    if (!rounded) return;
    Four half;
#pragma unroll
    for (int j = 0; j < 4; ++j) half.at[j] = narrow<G>(results[0][j]);
    *reinterpret_cast<Four*>(rounded + first) = half;
  }
  __device__ void update_one(const F& prepared, int64_t i) const {
    float from[kInputs], to[kOutputs];
    for (int k = 0; k < kInputs; ++k) from[k] = k == kGradient ? widen(gradient[i]) : in[k][i];
    prepared.update(from, to);
    for (int k = 0; k < kOutputs; ++k) out[k][i] = to[k];
    if (rounded) rounded[i] = narrow<G>(to[0]);
  }
};

// F::kInputs tensors of one shape come first among the inputs, then scalars; all F::kOutputs outputs are of
// that shape, and so is one more where there is one. One launch for each format of gradients that there is.
template <typename F>
void run_updates(std::span<const KernelContext> contexts) {
  const auto run_those_of = [&](DType dtype, auto zero) {
    using G = decltype(zero);
    std::vector<Update<F::kInputs, F::kOutputs, F, G>> list;
    for (const KernelContext& context : contexts) {
      if (context.inputs[kGradient].dtype != dtype) continue;
      auto& item = list.emplace_back();
      item.gradient = in<G>(context, kGradient);
      item.count = context.inputs[0].elements();
      item.f = F::of(context);
      for (int k = 0; k < F::kInputs; ++k) item.in[k] = k == kGradient ? nullptr : in<float>(context, k);
      for (int k = 0; k < F::kOutputs; ++k) item.out[k] = out<float>(context, k);
      item.rounded = context.outputs.size() > F::kOutputs ? out<G>(context, F::kOutputs) : nullptr;
    }
    if (!list.empty()) launch_items(list, stream_of(contexts[0]));
  };
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    with_format(dtype, [&](auto zero) { run_those_of(dtype, zero); });
}
template <typename F>
Kernel update_kernel() {
  return {.run = [](const KernelContext& context) { run_updates<F>({&context, 1}); },
          .run_many = run_updates<F>};
}

float attr(const KernelContext& context, const char* name, double otherwise) {
  return static_cast<float>(context.attrs.real(name, otherwise));
}
float attr(const KernelContext& context, const char* name) {
  return static_cast<float>(context.attrs.real(name));
}

struct Sgd {
  static constexpr int kInputs = 2, kOutputs = 1;
  const float *lr_at, *scale_at;
  float decay, lr, scale;
  static Sgd of(const KernelContext& context) {
    return {in<float>(context, 2), in<float>(context, 3), attr(context, "weight_decay", 0)};
  }
  __device__ void prepare() {
    lr = *lr_at;
    scale = *scale_at;
  }
  __device__ void update(const float* x, float* y) const {
    y[0] = isfinite(scale) ? fmaf(-lr, fmaf(decay, x[0], x[1] * scale), x[0]) : x[0];
  }
};

struct Momentum {
  static constexpr int kInputs = 3, kOutputs = 2;
  const float *lr_at, *scale_at;
  float decay, momentum;
  bool nesterov;
  float lr, scale;
  static Momentum of(const KernelContext& context) {
    return {in<float>(context, 3), in<float>(context, 4), attr(context, "weight_decay", 0),
            attr(context, "momentum"), context.attrs.integer("nesterov", 0) != 0};
  }
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
  static constexpr int kInputs = 4, kOutputs = 3;
  Moments moments;
  const float* lr_at;
  float coupled_decay;    // added to the gradient
  float decoupled_decay;  // taken off the weight: AdamW
  float lr;
  static Adam of(const KernelContext& context) {
    const float decay = attr(context, "weight_decay", 0);
    const bool decoupled = context.attrs.integer("decoupled", 1) != 0;
    return {Moments(context, 5), in<float>(context, 4), decoupled ? 0 : decay, decoupled ? decay : 0};
  }
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

struct LambDirection {
  static constexpr int kInputs = 4, kOutputs = 3;
  Moments moments;
  float decay;
  static LambDirection of(const KernelContext& context) {
    return {Moments(context, 4), attr(context, "weight_decay", 0)};
  }
  __device__ void prepare() { moments.prepare(); }
  __device__ void update(const float* x, float* y) const {
    y[0] = 0;  // the direction of a skipped step: none
    y[1] = x[2];
    y[2] = x[3];
    if (isfinite(moments.scale))
      y[0] = fmaf(decay, x[0], moments.direction(x[1] * moments.scale, &y[1], &y[2]));
  }
};

struct LambApply {
  static constexpr int kInputs = 2, kOutputs = 1;
  const float *w_squares, *r_squares, *lr_at, *scale_at;
  float rate;
  bool keep;
  static LambApply of(const KernelContext& context) {
    return {in<float>(context, 2), in<float>(context, 3), in<float>(context, 4), in<float>(context, 5)};
  }
  __device__ void prepare() {
    const double w = sqrt(static_cast<double>(*w_squares)), r = sqrt(static_cast<double>(*r_squares));
    rate = static_cast<float>((w > 0 && r > 0 ? w / r : 1) * *lr_at);
    keep = !isfinite(*scale_at);
  }
  __device__ void update(const float* x, float* y) const { y[0] = keep ? x[0] : fmaf(-rate, x[1], x[0]); }
};

struct Lars {
  static constexpr int kInputs = 3, kOutputs = 2;
  const float *w_squares, *g_squares, *lr_at, *scale_at;
  double decay, trust;
  float momentum;
  float rate, scale;
  static Lars of(const KernelContext& context) {
    return {in<float>(context, 3),
            in<float>(context, 4),
            in<float>(context, 5),
            in<float>(context, 6),
            context.attrs.real("weight_decay"),
            context.attrs.real("trust"),
            attr(context, "momentum")};
  }
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
  table.add("adam", DType::f32, update_kernel<Adam>());
  Kernel rounded = update_kernel<Adam>();
  rounded.gains = [](const KernelShape&) { return true; };
  table.add("adam_rounded", DType::f32, rounded);
  table.add("gradient_scale", DType::f32, {gradient_scale});
  table.add("lamb_apply", DType::f32, update_kernel<LambApply>());
  table.add("lamb_direction", DType::f32, update_kernel<LambDirection>());
  table.add("lars", DType::f32, update_kernel<Lars>());
  table.add("momentum", DType::f32, update_kernel<Momentum>());
  table.add("sgd", DType::f32, update_kernel<Sgd>());
}

}  // namespace trireme::cuda
