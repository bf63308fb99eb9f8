// batch_norm over x[n c s…], its gradient, and the parts that they are made of where rows are split. One pass
// over a channel, in parts, gives two sums in double precision; a thread per channel adds the parts in order
// and makes of them what is wanted; a last pass over the tensor applies it. Sums of squares in double
// precision are good as long as a channel's mean is below 10⁵ of its deviations.
#include <algorithm>

#include "trireme/kernels/cuda/device.cuh"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kWantedBlocks = 1024, kLeastOfPart = 2048;

// The rows in groups, each of which has statistics of its own.
struct Planes {
  int64_t groups, rows, channels, space, parts;

  Planes(const Shape& x, int64_t number_of_groups)
      : groups(number_of_groups),
        rows(x[0] / number_of_groups),
        channels(x[1]),
        space(x.elements(2, x.rank())),
        parts(std::clamp<int64_t>(kWantedBlocks / std::max<int64_t>(1, groups * channels), 1,
                                  std::max<int64_t>(1, rows * space / kLeastOfPart))) {}
  int64_t elements() const { return groups * rows * channels * space; }
  __host__ __device__ int64_t size() const { return rows * space; }  // of a channel in a group
  size_t sums_bytes() const { return static_cast<size_t>(groups * channels * parts) * sizeof(double2); }

  // Calls body(offset) for the packs of kCount elements first, first + step, … of a channel in a group, up to
  // `last`; a pack lies within one plane.
  template <int kCount, typename Body>
  __device__ void for_each_pack(int64_t group, int64_t channel, int64_t first, int64_t last, int step,
                                const Body& body) const {
    const int in_plane = static_cast<int>(space / kCount), step_rows = step / in_plane,
              step_columns = step % in_plane;
    int64_t row = first / in_plane;
    int column = static_cast<int>(first % in_plane);
    for (int64_t i = first; i < last; i += step) {
      body(((group * rows + row) * channels + channel) * space + int64_t{column} * kCount);
      row += step_rows;
      column += step_columns;
      if (column >= in_plane) {
        column -= in_plane;
        ++row;
      }
    }
  }
};

// Elements that are read at once, up to 16 bytes.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Some {
  T at[kCount];
};
template <int kCount, typename T>
__device__ Some<T, kCount> load_some(const T* from) {
  return *reinterpret_cast<const Some<T, kCount>*>(from);
}

// Calls body(how many elements of a plane are taken at once).
template <typename T, typename Body>
void with_packs(const Planes& p, const Body& body) {
  if (sizeof(T) == 2 && p.space % 8 == 0)
    return body(std::integral_constant < int, sizeof(T) == 2 ? 8 : 4 > ());
  if (p.space % 4 == 0) return body(std::integral_constant<int, 4>());
  body(std::integral_constant<int, 1>());
}

// Sums of pairs of values over each (group, channel), into partial[group][channel][part].
template <int kCount, typename Values>
__global__ void sums_kernel(Planes p, Values values, double2* partial) {
  const int64_t group = blockIdx.x / p.channels, channel = blockIdx.x % p.channels, part = blockIdx.y;
  const int64_t packs = p.size() / kCount, each = (packs + p.parts - 1) / p.parts,
                last = min((part + 1) * each, packs);
  double first = 0, second = 0;
  p.for_each_pack<kCount>(group, channel, part * each + threadIdx.x, last, blockDim.x,
                          [&](int64_t at) { values.template add<kCount>(at, blockIdx.x, &first, &second); });
  first = block_sum(first);
  second = block_sum(second);
  if (threadIdx.x == 0) partial[blockIdx.x * p.parts + part] = {first, second};
}
__device__ double2 total(const Planes& p, const double2* partial, int64_t at) {
  double2 sum{0, 0};
  for (int64_t part = 0; part < p.parts; ++part) {
    sum.x += partial[at * p.parts + part].x;
    sum.y += partial[at * p.parts + part].y;
  }
  return sum;
}

template <typename T>
struct Moments {
  using Element = T;
  const T* x;
  template <int kCount>
  __device__ void add(int64_t i, int64_t, double* first, double* second) const {
    const auto pack = load_some<kCount>(x + i);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const double value = widen(pack.at[j]);
      *first += value;
      *second += value * value;
    }
  }
};
template <typename T>
struct Deviations {
  using Element = T;
  const T* x;
  const float* mean;
  template <int kCount>
  __device__ void add(int64_t i, int64_t at, double* first, double* second) const {
    const auto pack = load_some<kCount>(x + i);
    const double centre = mean[at];
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const double off = static_cast<double>(widen(pack.at[j])) - centre;
      *first += off;
      *second += off * off;
    }
  }
};
template <typename T>
struct GradValues {  // Σ dy and Σ dy·(x − mean)
  using Element = T;
  const T *dy, *x;
  const float* mean;
  template <int kCount>
  __device__ void add(int64_t i, int64_t at, double* first, double* second) const {
    const auto dys = load_some<kCount>(dy + i), xs = load_some<kCount>(x + i);
    const double centre = mean[at];
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const double g = widen(dys.at[j]);
      *first += g;
      *second += g * (static_cast<double>(widen(xs.at[j])) - centre);
    }
  }
};

template <typename Values>
double2* sums(const KernelContext& context, const Planes& p, const Values& values) {
  double2* const partial = reinterpret_cast<double2*>(context.workspace);
  const dim3 grid(blocks(p.groups * p.channels), blocks(p.parts));
  with_packs<typename Values::Element>(p, [&](auto count) {
    sums_kernel<count><<<grid, kThreads, 0, stream_of(context)>>>(p, values, partial);
  });
  return partial;
}

// y = (x − mean) · scale + bias for each (group, channel).
struct Affine3 {
  float mean, scale, bias;
};
template <int kCount, typename T, typename Coefficients>
__global__ void normalize_kernel(Planes p, const T* x, T* y, Coefficients coefficients) {
  const int64_t at = blockIdx.x, group = at / p.channels, channel = at % p.channels;
  const Affine3 c = coefficients(at, channel);
  p.for_each_pack<kCount>(group, channel, int64_t{blockIdx.y} * blockDim.x + threadIdx.x, p.size() / kCount,
                          gridDim.y * blockDim.x, [&](int64_t at) {
                            auto pack = load_some<kCount>(x + at);
#pragma unroll
                            for (int j = 0; j < kCount; ++j)
                              pack.at[j] = narrow<T>((widen(pack.at[j]) - c.mean) * c.scale + c.bias);
                            *reinterpret_cast<Some<T, kCount>*>(y + at) = pack;
                          });
}
dim3 apply_grid(const Planes& p, int packs_of) {
  return {blocks(p.groups * p.channels),
          blocks(std::clamp<int64_t>(ceil_div(p.size(), int64_t{4} * packs_of * kThreads), 1, 65535))};
}
template <typename T, typename Coefficients>
void normalize(const KernelContext& context, const Planes& p, const Coefficients& coefficients) {
  with_packs<T>(p, [&](auto count) {
    normalize_kernel<count><<<apply_grid(p, count), kThreads, 0, stream_of(context)>>>(
        p, in<T>(context, 0), out<T>(context, 0), coefficients);
  });
}

template <typename T>
struct TrainingCoefficients {
  const float *mean, *rstd;
  const T *gain, *bias;
  __device__ Affine3 operator()(int64_t at, int64_t channel) const {
    return {mean[at], rstd[at] * widen(gain[channel]), widen(bias[channel])};
  }
};
template <typename T>
struct InferenceCoefficients {
  const T *gain, *bias;
  const float *mean, *var;
  double eps;
  __device__ Affine3 operator()(int64_t, int64_t channel) const {
    return {mean[channel], static_cast<float>(widen(gain[channel]) / sqrt(var[channel] + eps)),
            widen(bias[channel])};
  }
};

struct Statistics {
  const float *running_mean, *running_var;
  float *mean, *rstd, *new_mean, *new_var;
  double eps, momentum, all_groups;
};
__global__ void statistics_kernel(Planes p, const double2* partial, Statistics s) {
  const int64_t channel = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (channel >= p.channels) return;
  const double size = static_cast<double>(p.size());
  double mean_of_groups = 0, var_of_groups = 0;
  for (int64_t group = 0; group < p.groups; ++group) {
    const int64_t at = group * p.channels + channel;
    const double2 sum = total(p, partial, at);
    const double mean = sum.x / size, squares = fmax(0.0, sum.y - mean * sum.x);
    s.mean[at] = static_cast<float>(mean);
    s.rstd[at] = static_cast<float>(1 / sqrt(squares / size + s.eps));
    mean_of_groups += mean / s.all_groups;
    var_of_groups += squares / fmax(1.0, size - 1) / s.all_groups;
  }
  // Running statistics take the mean over all groups, of which a part adds its share.
  const double kept = (1 - s.momentum) * static_cast<double>(p.groups) / s.all_groups;
  s.new_mean[channel] = static_cast<float>(kept * s.running_mean[channel] + s.momentum * mean_of_groups);
  s.new_var[channel] = static_cast<float>(kept * s.running_var[channel] + s.momentum * var_of_groups);
}

void batch_norm(const KernelContext& context) {
  const int64_t groups = context.attrs.integer("groups", 1);
  const Planes p(context.inputs[0].shape, groups);
  if (p.elements() == 0) return;
  const Statistics statistics{in<float>(context, 3),
                              in<float>(context, 4),
                              out<float>(context, 1),
                              out<float>(context, 2),
                              out<float>(context, 3),
                              out<float>(context, 4),
                              context.attrs.real("eps"),
                              context.attrs.real("momentum", 0.1),
                              static_cast<double>(context.attrs.integer("all_groups", groups))};
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* const x = in<T>(context, 0);
    const double2* const partial = sums(context, p, Moments<T>{x});
    statistics_kernel<<<blocks(ceil_div(p.channels, kThreads)), kThreads, 0, stream_of(context)>>>(
        p, partial, statistics);
    normalize<T>(
        context, p,
        TrainingCoefficients<T>{statistics.mean, statistics.rstd, in<T>(context, 1), in<T>(context, 2)});
  });
}

void batch_norm_inference(const KernelContext& context) {
  const Planes p(context.inputs[0].shape, 1);
  if (p.elements() == 0) return;
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    normalize<T>(context, p,
                 InferenceCoefficients<T>{in<T>(context, 1), in<T>(context, 2), in<float>(context, 3),
                                          in<float>(context, 4), context.attrs.real("eps")});
  });
}

// dx = by_dy · dy + by_x · (x − mean) + shift.
struct GradCoefficients {
  float by_dy, by_x, shift;
};
// dx = gain·rstd · (dy − Σdy/size − x̂·dgain/size), with x̂ = (x − mean)·rstd; dy_x is dgain / rstd.
__device__ GradCoefficients grad_coefficients(double sum_dy, double sum_dy_x, double size, double gain,
                                              double rstd) {
  const double scale = gain * rstd;
  return {static_cast<float>(scale), static_cast<float>(-scale * rstd * rstd * sum_dy_x / size),
          static_cast<float>(-scale * sum_dy / size)};
}

template <int kCount, typename T>
__global__ void grad_kernel(Planes p, const T* dy, const T* x, const float* mean,
                            const GradCoefficients* coefficients, T* dx) {
  const int64_t at = blockIdx.x, group = at / p.channels, channel = at % p.channels;
  const GradCoefficients c = coefficients[at];
  const float centre = mean[at];
  p.for_each_pack<kCount>(group, channel, int64_t{blockIdx.y} * blockDim.x + threadIdx.x, p.size() / kCount,
                          gridDim.y * blockDim.x, [&](int64_t i) {
                            auto pack = load_some<kCount>(dy + i);
                            const auto xs = load_some<kCount>(x + i);
#pragma unroll
                            for (int j = 0; j < kCount; ++j) {
                              const float by_x = c.by_x * (widen(xs.at[j]) - centre) + c.shift;
                              pack.at[j] = narrow<T>(c.by_dy * widen(pack.at[j]) + by_x);
                            }
                            *reinterpret_cast<Some<T, kCount>*>(dx + i) = pack;
                          });
}
template <typename T>
void input_gradient(const KernelContext& context, const Planes& p, const float* mean,
                    const GradCoefficients* coefficients) {
  with_packs<T>(p, [&](auto count) {
    grad_kernel<count><<<apply_grid(p, count), kThreads, 0, stream_of(context)>>>(
        p, in<T>(context, 0), in<T>(context, 1), mean, coefficients, out<T>(context, 0));
  });
}

template <typename T>
__global__ void grad_sums_kernel(Planes p, const double2* partial, const T* gain, const float* rstd,
                                 GradCoefficients* coefficients, T* dgain, T* dbias) {
  const int64_t channel = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (channel >= p.channels) return;
  double gain_sum = 0, bias_sum = 0;
  for (int64_t group = 0; group < p.groups; ++group) {
    const int64_t at = group * p.channels + channel;
    const double2 sum = total(p, partial, at);
    gain_sum += sum.y * rstd[at];
    bias_sum += sum.x;
    coefficients[at] =
        grad_coefficients(sum.x, sum.y, static_cast<double>(p.size()), widen(gain[channel]), rstd[at]);
  }
  dgain[channel] = narrow<T>(static_cast<float>(gain_sum));
  dbias[channel] = narrow<T>(static_cast<float>(bias_sum));
}

GradCoefficients* coefficients_of(const KernelContext& context, const Planes& p) {
  return reinterpret_cast<GradCoefficients*>(context.workspace + p.sums_bytes());
}

void batch_norm_grad(const KernelContext& context) {
  const Planes p(context.inputs[0].shape, context.attrs.integer("groups", 1));
  if (p.channels == 0) return;
  GradCoefficients* const coefficients = coefficients_of(context, p);
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const T *const dy = in<T>(context, 0), *const x = in<T>(context, 1);
    const float *const mean = in<float>(context, 3), *const rstd = in<float>(context, 4);
    const double2* const partial = sums(context, p, GradValues<T>{dy, x, mean});
    grad_sums_kernel<<<blocks(ceil_div(p.channels, kThreads)), kThreads, 0, stream_of(context)>>>(
        p, partial, in<T>(context, 2), rstd, coefficients, out<T>(context, 1), out<T>(context, 2));
    input_gradient<T>(context, p, mean, coefficients);
  });
}

__global__ void grad_sums_only_kernel(Planes p, const double2* partial, const float* rstd, float* dgain,
                                      float* dbias) {
  const int64_t channel = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (channel >= p.channels) return;
  const double2 sum = total(p, partial, channel);
  dgain[channel] = static_cast<float>(sum.y * rstd[channel]);
  dbias[channel] = static_cast<float>(sum.x);
}

void batch_norm_grad_sums(const KernelContext& context) {
  const Planes p(context.inputs[0].shape, 1);
  if (p.channels == 0) return;
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const double2* const partial =
        sums(context, p, GradValues<T>{in<T>(context, 0), in<T>(context, 1), in<float>(context, 2)});
    grad_sums_only_kernel<<<blocks(ceil_div(p.channels, kThreads)), kThreads, 0, stream_of(context)>>>(
        p, partial, in<float>(context, 3), out<float>(context, 0), out<float>(context, 1));
  });
}

template <typename T>
__global__ void given_sums_kernel(Planes p, const T* gain, const float* rstd, const float* dgain,
                                  const float* dbias, double count, GradCoefficients* coefficients) {
  const int64_t channel = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (channel >= p.channels) return;
  coefficients[channel] =
      grad_coefficients(dbias[channel], static_cast<double>(dgain[channel]) / rstd[channel], count,
                        widen(gain[channel]), rstd[channel]);
}

void batch_norm_grad_input(const KernelContext& context) {
  const Planes p(context.inputs[0].shape, 1);
  if (p.elements() == 0) return;
  GradCoefficients* const coefficients = coefficients_of(context, p);
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    given_sums_kernel<<<blocks(ceil_div(p.channels, kThreads)), kThreads, 0, stream_of(context)>>>(
        p, in<T>(context, 2), in<float>(context, 4), in<float>(context, 5), in<float>(context, 6),
        context.attrs.real("count"), coefficients);
    input_gradient<T>(context, p, in<float>(context, 3), coefficients);
  });
}

enum class Which { kFirst, kSecond };
__global__ void totals_kernel(Planes p, const double2* partial, Which which, float* y) {
  const int64_t channel = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (channel >= p.channels) return;
  const double2 sum = total(p, partial, channel);
  y[channel] = static_cast<float>(which == Which::kFirst ? sum.x : sum.y);
}

template <Which kWhich>
void channel_totals(const KernelContext& context) {
  const Planes p(context.inputs[0].shape, 1);
  if (p.channels == 0) return;
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const double2* partial;
    if constexpr (kWhich == Which::kFirst)
      partial = sums(context, p, Moments<T>{in<T>(context, 0)});
    else
      partial = sums(context, p, Deviations<T>{in<T>(context, 0), in<float>(context, 1)});
    totals_kernel<<<blocks(ceil_div(p.channels, kThreads)), kThreads, 0, stream_of(context)>>>(
        p, partial, kWhich, out<float>(context, 0));
  });
}

size_t workspace(const KernelShape& shape) {
  const Planes p(shape.inputs[0].shape, shape.attrs.integer("groups", 1));
  return p.sums_bytes() + static_cast<size_t>(p.groups * p.channels) * sizeof(GradCoefficients);
}

}  // namespace

void add_batch_norm(KernelTable& table) {
  add_for_all_formats(table, "batch_norm", {batch_norm, workspace});
  add_for_all_formats(table, "batch_norm_grad", {batch_norm_grad, workspace});
  add_for_all_formats(table, "batch_norm_grad_input", {batch_norm_grad_input, workspace});
  add_for_all_formats(table, "batch_norm_grad_sums", {batch_norm_grad_sums, workspace});
  add_for_all_formats(table, "batch_norm_inference", {batch_norm_inference});
  add_for_all_formats(table, "channel_squares", {channel_totals<Which::kSecond>, workspace});
  add_for_all_formats(table, "channel_sum", {channel_totals<Which::kFirst>, workspace});
}

}  // namespace trireme::cuda
