// batch_norm and its gradient over x[n y x c], with a relu and a sum behind the norm. A thread keeps to one
// pack of channels and walks down the rows; sums over rows are f32 within a thread and double from there on,
// in a fixed order: parts of rows by blocks, then a warp for each channel. Squares are summed of distances to
// the channel's first element, so that a mean far from zero costs no digits.
#include <algorithm>

#include "trireme/kernels/composed.h"
#include "trireme/kernels/cuda/device.cuh"
#include "trireme/kernels/cuda/table.h"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256, kMostLanes = 32;
constexpr int64_t kWantedBlocks = 1056, kLeastRowsOfThread = 4;

// [rows channels], of which a block takes `lanes` packs of channels side by side and `lines` rows at a time:
// as many lanes as leave none idle, or nearly.
template <typename T>
struct Grid {
  int64_t rows, channels;
  int lanes, lines, tiles;

  Grid(const Shape& x) : rows(x.elements(0, x.rank() - 1)), channels(x.back()) {
    const int64_t packs = channels / kPack<T>;
    tiles = static_cast<int>(ceil_div(packs, kMostLanes));
    lanes = static_cast<int>(ceil_div(packs, tiles));
    lines = kThreads / lanes;
  }
  int threads() const { return lanes * lines; }
  int64_t parts() const {  // of the rows, for sums
    return std::clamp<int64_t>(kWantedBlocks / tiles, 1,
                               std::max<int64_t>(1, rows / (lines * kLeastRowsOfThread)));
  }
  dim3 sum_blocks() const { return {blocks(tiles), blocks(parts())}; }
  __host__ __device__ int64_t applied_rows() const { return int64_t{lines} * 8; }  // of a block
  dim3 apply_blocks() const { return {blocks(tiles), blocks(ceil_div(rows, applied_rows()))}; }

  __device__ int first_channel() const {
    return (static_cast<int>(blockIdx.x) * lanes + static_cast<int>(threadIdx.x) % lanes) * kPack<T>;
  }
  __device__ int line() const { return static_cast<int>(threadIdx.x) / lanes; }
};

template <typename T>
using Floats = float[kPack<T>];

template <typename V, typename T>
__device__ __forceinline__ void load_channels(const V* from, int channel, Floats<T>& to) {
#pragma unroll
  for (int j = 0; j < kPack<T>; ++j) to[j] = widen(from[channel + j]);
}

// What relu sees; the forward pass and the gradient must come to the same bits.
template <typename T>
__device__ __forceinline__ float normalized(float x, float mean, float scale, float bias) {
  return widen(narrow<T>(fmaf(x - mean, scale, bias)));
}

// Calls body(offset of a pack, row) for the rows of this thread from `first` to `last`.
template <int kUnroll, typename T, typename Body>
__device__ __forceinline__ void for_each_row(const Grid<T>& g, int64_t first, int64_t last,
                                             const Body& body) {
  const int channel = g.first_channel();
#pragma unroll kUnroll
  for (int64_t row = first + g.line(); row < last; row += g.lines) body(row * g.channels + channel);
}

// Two sums for each channel over a part of the rows: Values::add takes a pack of elements into them.
template <typename T, typename Values>
__global__ void __launch_bounds__(kThreads) sums_kernel(Grid<T> g, Values values, double2* partial) {
  constexpr int kWidth = kPack<T>;
  __shared__ float2 shared[kThreads * kWidth];
  const int channel = g.first_channel();
  const int64_t parts = gridDim.y, part = blockIdx.y, each = (g.rows + parts - 1) / parts;
  float first[kWidth] = {}, second[kWidth] = {};
  if (channel < g.channels) {
    values.start(channel);
    for_each_row<4>(g, part * each, min((part + 1) * each, g.rows),
                    [&](int64_t at) { values.add(at, first, second); });
  }
#pragma unroll
  for (int j = 0; j < kWidth; ++j)
    shared[(g.line() * g.lanes + static_cast<int>(threadIdx.x) % g.lanes) * kWidth + j] = {first[j],
                                                                                           second[j]};
  __syncthreads();
  const int columns = g.lanes * kWidth;
  for (int column = threadIdx.x; column < columns; column += blockDim.x) {
    const int64_t whole = int64_t{blockIdx.x} * columns + column;
    if (whole >= g.channels) return;
    double2 sum{0, 0};
    for (int line = 0; line < g.lines; ++line) {
      const float2 one = shared[line * columns + column];
      sum.x += one.x;
      sum.y += one.y;
    }
    partial[whole * parts + part] = sum;
  }
}

// All lanes of a warp get the channel's sums.
__device__ double2 channel_sums(const double2* partial, int64_t parts, int64_t channel) {
  double2 sum{0, 0};
  for (int64_t part = threadIdx.x % 32; part < parts; part += 32) {
    const double2 one = partial[channel * parts + part];
    sum.x += one.x;
    sum.y += one.y;
  }
  return {warp_reduce(sum.x, Add()), warp_reduce(sum.y, Add())};
}
// The channel of a warp, and whether this lane is the one to write.
__device__ int64_t warp_channel() {
  return (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
}
unsigned warp_blocks(int64_t channels) {
  return blocks(ceil_div(channels * 32, kThreads));
}

template <typename T>
struct Moments {
  const T* x;
  Floats<T> pivot;
  __device__ void start(int channel) { load_channels<T, T>(x, channel, pivot); }
  __device__ void add(int64_t at, Floats<T>& first, Floats<T>& second) const {
    const Pack<T> pack = load_pack(x + at);
#pragma unroll
    for (int j = 0; j < kPack<T>; ++j) {
      const float off = widen(pack.at[j]) - pivot[j];
      first[j] += off;
      second[j] = fmaf(off, off, second[j]);
    }
  }
};

struct Statistics {
  const float *running_mean, *running_var;
  float *mean, *rstd, *new_mean, *new_var;
  double eps, momentum, all_groups;
};
template <typename T>
__global__ void statistics_kernel(int64_t rows, int64_t channels, const T* x, const double2* partial,
                                  int64_t parts, Statistics s) {
  const int64_t channel = warp_channel();
  if (channel >= channels) return;
  const double2 sum = channel_sums(partial, parts, channel);
  if (threadIdx.x % 32 != 0) return;
  const double size = static_cast<double>(rows), off = sum.x / size, mean = widen(x[channel]) + off,
               squares = fmax(0.0, sum.y - off * sum.x);
  s.mean[channel] = static_cast<float>(mean);
  s.rstd[channel] = static_cast<float>(1 / sqrt(squares / size + s.eps));
  // Running statistics take the mean over all groups, of which a part adds its share.
  const double kept = (1 - s.momentum) / s.all_groups, added = s.momentum / s.all_groups;
  s.new_mean[channel] = static_cast<float>(kept * s.running_mean[channel] + added * mean);
  s.new_var[channel] =
      static_cast<float>(kept * s.running_var[channel] + added * squares / fmax(1.0, size - 1));
}

enum class Epilogue { kNone, kRelu, kAddRelu };
Epilogue epilogue_of(const Attrs& attrs) {
  const std::string_view name = attrs.text("epilogue", "none");
  return name == "relu" ? Epilogue::kRelu : name == "add_relu" ? Epilogue::kAddRelu : Epilogue::kNone;
}
// Calls body with the epilogue as a constant.
template <typename Body>
void with_epilogue(const Attrs& attrs, const Body& body) {
  switch (epilogue_of(attrs)) {
    case Epilogue::kNone:
      return body(std::integral_constant<Epilogue, Epilogue::kNone>());
    case Epilogue::kRelu:
      return body(std::integral_constant<Epilogue, Epilogue::kRelu>());
    case Epilogue::kAddRelu:
      return body(std::integral_constant<Epilogue, Epilogue::kAddRelu>());
  }
}

template <typename T>
struct Norm {
  const T *x, *gain, *bias, *more;
  const float *mean, *rstd;
  T* z;
};
template <typename T, Epilogue kEpilogue>
__global__ void __launch_bounds__(kThreads) normalize_kernel(Grid<T> g, Norm<T> n) {
  const int channel = g.first_channel();
  if (channel >= g.channels) return;
  Floats<T> mean, scale, bias, gain;
  load_channels<float, T>(n.mean, channel, mean);
  load_channels<float, T>(n.rstd, channel, scale);
  load_channels<T, T>(n.gain, channel, gain);
  load_channels<T, T>(n.bias, channel, bias);
#pragma unroll
  for (int j = 0; j < kPack<T>; ++j) scale[j] *= gain[j];
  const int64_t first = blockIdx.y * g.applied_rows();
  for_each_row<4>(g, first, min(first + g.applied_rows(), g.rows), [&](int64_t at) {
    Pack<T> pack = load_pack(n.x + at), more;
    if constexpr (kEpilogue == Epilogue::kAddRelu) more = load_pack(n.more + at);
#pragma unroll
    for (int j = 0; j < kPack<T>; ++j) {
      float value = normalized<T>(widen(pack.at[j]), mean[j], scale[j], bias[j]);
      if constexpr (kEpilogue == Epilogue::kAddRelu) value = widen(narrow<T>(value + widen(more.at[j])));
      if constexpr (kEpilogue != Epilogue::kNone) value = value < 0 ? 0 : value;
      pack.at[j] = narrow<T>(value);
    }
    store_pack(n.z + at, pack);
  });
}

using Apart = ComposedKernel<cuda_kernels, kBatchNormNhwc>;
using ApartGrad = ComposedKernel<cuda_kernels, kBatchNormNhwcGrad>;

bool whole_packs(const Shape& x, DType dtype) {
  return x.elements() > 0 && x.back() % (16 / static_cast<int64_t>(size_of(dtype))) == 0;
}

void batch_norm_nhwc(const KernelContext& context) {
  const Shape& shape = context.inputs[0].shape;
  if (!whole_packs(shape, context.inputs[0].dtype)) return Apart::run(context);
  const Statistics statistics{in<float>(context, 3),
                              in<float>(context, 4),
                              out<float>(context, 1),
                              out<float>(context, 2),
                              out<float>(context, 3),
                              out<float>(context, 4),
                              context.attrs.real("eps"),
                              context.attrs.real("momentum", 0.1),
                              static_cast<double>(context.attrs.integer("all_groups", 1))};
  const cudaStream_t stream = stream_of(context);
  double2* const partial = reinterpret_cast<double2*>(context.workspace);
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const Grid<T> g(shape);
    const T* const x = in<T>(context, 0);
    sums_kernel<T><<<g.sum_blocks(), g.threads(), 0, stream>>>(g, Moments<T>{x}, partial);
    statistics_kernel<<<warp_blocks(g.channels), kThreads, 0, stream>>>(g.rows, g.channels, x, partial,
                                                                        g.parts(), statistics);
    with_epilogue(context.attrs, [&](auto epilogue) {
      const T* const more = epilogue == Epilogue::kAddRelu ? in<T>(context, 5) : nullptr;
      normalize_kernel<T, epilogue><<<g.apply_blocks(), g.threads(), 0, stream>>>(
          g, {x, in<T>(context, 1), in<T>(context, 2), more, statistics.mean, statistics.rstd,
              out<T>(context, 0)});
    });
  });
}

// dx = slope · g + turn · (x − mean) + shift for each channel, where g is dz behind the relu.
struct alignas(16) GradCoefficients {
  float slope, turn, shift;
};

// What g is made of. With kAddRelu it is stored as ds, and read again from there.
template <typename T, Epilogue kEpilogue>
struct Masked {
  const T *dz, *x, *gain, *bias, *z, *more;
  const float *mean, *rstd;
  T* ds;

  // Of a pack of channels: what the slope of the relu is known by.
  struct Channels {
    Floats<T> mean, scale, bias;
  };
  __device__ void start(int channel, Channels& c) const {
    load_channels<float, T>(mean, channel, c.mean);
    if constexpr (kEpilogue == Epilogue::kRelu) {
      Floats<T> gains;
      load_channels<float, T>(rstd, channel, c.scale);
      load_channels<T, T>(gain, channel, gains);
      load_channels<T, T>(bias, channel, c.bias);
#pragma unroll
      for (int j = 0; j < kPack<T>; ++j) c.scale[j] *= gains[j];
    }
  }
};

template <typename T, Epilogue kEpilogue>
struct GradSums {  // Σ g and Σ g · (x − mean)
  Masked<T, kEpilogue> m;
  typename Masked<T, kEpilogue>::Channels c;
  __device__ void start(int channel) { m.start(channel, c); }
  __device__ void add(int64_t at, Floats<T>& first, Floats<T>& second) const {
    const Pack<T> xs = load_pack(m.x + at);
    Pack<T> g = load_pack(m.dz + at), more, z;
    if constexpr (kEpilogue == Epilogue::kAddRelu) {
      z = load_pack(m.z + at);
      if (m.more) more = load_pack(m.more + at);
    }
#pragma unroll
    for (int j = 0; j < kPack<T>; ++j) {
      const float x = widen(xs.at[j]);
      float value = widen(g.at[j]);
      if constexpr (kEpilogue == Epilogue::kRelu)
        value = normalized<T>(x, c.mean[j], c.scale[j], c.bias[j]) > 0 ? value : 0;
      if constexpr (kEpilogue == Epilogue::kAddRelu) {
        if (m.more) value = widen(narrow<T>(value + widen(more.at[j])));
        value = widen(z.at[j]) > 0 ? value : 0;
        g.at[j] = narrow<T>(value);
      }
      first[j] += value;
      second[j] = fmaf(value, x - c.mean[j], second[j]);
    }
    if constexpr (kEpilogue == Epilogue::kAddRelu) store_pack(m.ds + at, g);
  }
};

template <typename T>
__global__ void grad_coefficients_kernel(int64_t rows, int64_t channels, const double2* partial,
                                         int64_t parts, const T* gain, const float* rstd,
                                         GradCoefficients* coefficients, T* dgain, T* dbias) {
  const int64_t channel = warp_channel();
  if (channel >= channels) return;
  const double2 sum = channel_sums(partial, parts, channel);
  if (threadIdx.x % 32 != 0) return;
  const double r = rstd[channel], slope = widen(gain[channel]) * r, size = static_cast<double>(rows);
  coefficients[channel] = {static_cast<float>(slope), static_cast<float>(-slope * r * r * sum.y / size),
                           static_cast<float>(-slope * sum.x / size)};
  dgain[channel] = narrow<T>(static_cast<float>(sum.y * r));
  dbias[channel] = narrow<T>(static_cast<float>(sum.x));
}

template <typename T, Epilogue kEpilogue>
__global__ void __launch_bounds__(kThreads)
    input_gradient_kernel(Grid<T> g, Masked<T, kEpilogue> m, const GradCoefficients* coefficients, T* dx) {
  const int channel = g.first_channel();
  if (channel >= g.channels) return;
  typename Masked<T, kEpilogue>::Channels c;
  m.start(channel, c);
  GradCoefficients k[kPack<T>];
#pragma unroll
  for (int j = 0; j < kPack<T>; ++j) k[j] = coefficients[channel + j];
  const T* const from = kEpilogue == Epilogue::kAddRelu ? m.ds : m.dz;
  const int64_t first = blockIdx.y * g.applied_rows();
  for_each_row<2>(g, first, min(first + g.applied_rows(), g.rows), [&](int64_t at) {
    const Pack<T> xs = load_pack(m.x + at);
    Pack<T> pack = load_pack(from + at);
#pragma unroll
    for (int j = 0; j < kPack<T>; ++j) {
      const float x = widen(xs.at[j]);
      float value = widen(pack.at[j]);
      if constexpr (kEpilogue == Epilogue::kRelu)
        value = normalized<T>(x, c.mean[j], c.scale[j], c.bias[j]) > 0 ? value : 0;
      pack.at[j] = narrow<T>(fmaf(k[j].slope, value, fmaf(k[j].turn, x - c.mean[j], k[j].shift)));
    }
    store_pack(dx + at, pack);
  });
}

void batch_norm_nhwc_grad(const KernelContext& context) {
  const Shape& shape = context.inputs[1].shape;
  if (!whole_packs(shape, context.inputs[1].dtype)) return ApartGrad::run(context);
  const cudaStream_t stream = stream_of(context);
  with_format(context.inputs[1].dtype, [&](auto zero) {
    using T = decltype(zero);
    const Grid<T> g(shape);
    GradCoefficients* const coefficients = reinterpret_cast<GradCoefficients*>(context.workspace);
    double2* const partial = reinterpret_cast<double2*>(coefficients + g.channels);
    with_epilogue(context.attrs, [&](auto epilogue) {
      constexpr size_t kMore = 6;
      Masked<T, epilogue> m{.dz = in<T>(context, 0),
                            .x = in<T>(context, 1),
                            .gain = in<T>(context, 2),
                            .bias = epilogue == Epilogue::kRelu ? in<T>(context, 5) : nullptr,
                            .z = epilogue == Epilogue::kAddRelu ? in<T>(context, 5) : nullptr,
                            .more = context.inputs.size() > kMore ? in<T>(context, kMore) : nullptr,
                            .mean = in<float>(context, 3),
                            .rstd = in<float>(context, 4),
                            .ds = epilogue == Epilogue::kAddRelu ? out<T>(context, 3) : nullptr};
      sums_kernel<T><<<g.sum_blocks(), g.threads(), 0, stream>>>(g, GradSums<T, epilogue>{m}, partial);
      grad_coefficients_kernel<<<warp_blocks(g.channels), kThreads, 0, stream>>>(
          g.rows, g.channels, partial, g.parts(), m.gain, m.rstd, coefficients, out<T>(context, 1),
          out<T>(context, 2));
      input_gradient_kernel<T, epilogue>
          <<<g.apply_blocks(), g.threads(), 0, stream>>>(g, m, coefficients, out<T>(context, 0));
    });
  });
}

// Of x: coefficients and partial sums, or what the parts want.
template <typename Otherwise, int kX>
size_t workspace(const KernelShape& shape) {
  const TensorType& x = shape.inputs[kX];
  if (!whole_packs(x.shape, x.dtype)) return Otherwise::workspace(shape);
  size_t bytes = 0;
  with_format(x.dtype, [&](auto zero) {
    const Grid<decltype(zero)> g(x.shape);
    bytes = static_cast<size_t>(g.channels) *
            (sizeof(GradCoefficients) + static_cast<size_t>(g.parts()) * sizeof(double2));
  });
  return bytes;
}

template <int kX>
bool gains(const KernelShape& shape) {
  const TensorType& x = shape.inputs[kX];
  return x.dtype != DType::f32 && whole_packs(x.shape, x.dtype);
}

}  // namespace

void add_batch_norm_nhwc(KernelTable& table) {
  add_for_all_formats(table, "batch_norm_nhwc",
                      {.run = batch_norm_nhwc, .workspace_bytes = workspace<Apart, 0>, .gains = gains<0>});
  add_for_all_formats(
      table, "batch_norm_nhwc_grad",
      {.run = batch_norm_nhwc_grad, .workspace_bytes = workspace<ApartGrad, 1>, .gains = gains<1>});
}

}  // namespace trireme::cuda
