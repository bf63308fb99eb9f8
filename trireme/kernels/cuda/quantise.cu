// Codes of two bits and of levels, packed and unpacked, a thread for each byte of codes; levels of a bucket's
// norm by a block. Numbers are those of the CPU, and so are the codes, but where a norm is rounded otherwise.
// Elias' codes are written one after another, which a GPU is no good at: they are refused.
#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/kernels/cuda/device.cuh"
#include "trireme/kernels/cuda/random.cuh"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256;

__device__ int64_t global_thread() {
  return int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
unsigned blocks_of(int64_t threads) {
  return blocks(ceil_div(threads, kThreads));
}
StepKey key_of(const Attrs& attrs) {
  return {static_cast<uint64_t>(attrs.integer("seed")), static_cast<uint64_t>(attrs.integer("stream"))};
}

struct ThresholdCode {
  const float *x, *limit;
  __device__ unsigned operator()(int64_t i) const { return x[i] >= *limit ? 1u : x[i] <= -*limit ? 2u : 0u; }
};
struct TernaryCode {
  const float *x, *limit, *step;
  StepKey key;
  __device__ unsigned operator()(int64_t i) const {
    const double drawn = uniform_at(key.seed, key.stream_at(step), i) * static_cast<double>(*limit);
    return drawn < fabs(static_cast<double>(x[i])) ? (x[i] < 0 ? 2u : 1u) : 0u;
  }
};
template <typename Code>
__global__ void pack_pairs_kernel(Code code, int64_t n, uint8_t* codes, int64_t bytes) {
  const int64_t i = global_thread();
  if (i >= bytes) return;
  unsigned byte = 0;
  for (int64_t e = 4 * i; e < n && e < 4 * i + 4; ++e) byte |= code(e) << (2 * (e - 4 * i));
  codes[i] = static_cast<uint8_t>(byte);
}
template <typename Code>
void pack_pairs(const KernelContext& context, const Code& code) {
  const int64_t bytes = context.outputs[0].elements();
  if (bytes > 0)
    pack_pairs_kernel<<<blocks_of(bytes), kThreads, 0, stream_of(context)>>>(
        code, context.inputs[0].elements(), out<uint8_t>(context, 0), bytes);
}
void threshold_pack(const KernelContext& context) {
  pack_pairs(context, ThresholdCode{in<float>(context, 0), in<float>(context, 1)});
}
void ternary_pack(const KernelContext& context) {
  pack_pairs(context, TernaryCode{in<float>(context, 0), in<float>(context, 1), in<float>(context, 2),
                                  key_of(context.attrs)});
}

__global__ void ternary_unpack_kernel(const uint8_t* codes, int64_t rows, int64_t bytes, const float* limit,
                                      float* y, int64_t n) {
  const int64_t i = global_thread();
  if (i >= n) return;
  int sum = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const int code = (codes[row * bytes + i / 4] >> (2 * (i % 4))) & 3;
    sum += (code & 1) - (code >> 1);
  }
  y[i] = static_cast<float>(sum) * *limit;
}
void ternary_unpack(const KernelContext& context) {
  const int64_t n = context.outputs[0].elements();
  if (n > 0)
    ternary_unpack_kernel<<<blocks_of(n), kThreads, 0, stream_of(context)>>>(
        in<uint8_t>(context, 0), context.inputs[0].shape[0], context.inputs[0].shape[1],
        in<float>(context, 1), out<float>(context, 0), n);
}

// A tensor of n elements cut in `count` buckets of `size`, with so many bytes of codes each.
struct Buckets {
  int bits, levels;
  int64_t size, count, bytes, n;

  Buckets(const Attrs& attrs, int64_t elements, int64_t buckets, int64_t all_bytes)
      : bits(static_cast<int>(attrs.integer("bits"))),
        levels((1 << (bits - 1)) - 1),
        size(attrs.integer("bucket")),
        count(buckets),
        bytes(buckets == 0 ? 0 : all_bytes / buckets),
        n(elements) {
    if (attrs.integer("elias", 0) != 0)
      throw_error(
          "a GPU does not write Elias' codes: leave elias out of the exchange, or set train.device=cpu");
  }
};

__global__ void quantise_kernel(Buckets b, const float* x, const float* step, StepKey key, uint8_t* codes,
                                float* norms) {
  const int64_t first = int64_t{blockIdx.x} * b.size, count = min(b.size, b.n - first);
  double squares = 0;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x)
    squares += static_cast<double>(x[first + i]) * static_cast<double>(x[first + i]);
  const float norm = static_cast<float>(sqrt(block_sum(squares)));
  if (threadIdx.x == 0) norms[blockIdx.x] = norm;
  const double steepness = b.levels / static_cast<double>(norm);
  const uint64_t stream = key.stream_at(step);
  for (int64_t byte = threadIdx.x; byte < b.bytes; byte += blockDim.x) {
    unsigned found = 0;
    if (norm > 0) {
      for (int64_t i = 8 * byte / b.bits; i < count && i * b.bits < 8 * byte + 8; ++i) {
        const float value = x[first + i];
        const double level =
            fmin(static_cast<double>(b.levels), fabs(static_cast<double>(value)) * steepness);
        const unsigned below = static_cast<unsigned>(level);
        const unsigned rounded = below + (uniform_at(key.seed, stream, first + i) < level - below ? 1u : 0u);
        const unsigned code = rounded | (value < 0 ? 1u << (b.bits - 1) : 0u);
        const int64_t shift = i * b.bits - 8 * byte;
        found |= shift >= 0 ? code << shift : code >> -shift;
      }
    }
    codes[blockIdx.x * b.bytes + byte] = static_cast<uint8_t>(found);
  }
}
void quantise(const KernelContext& context) {
  const Buckets b(context.attrs, context.inputs[0].elements(), context.outputs[1].elements(),
                  context.outputs[0].elements());
  if (b.count > 0)
    quantise_kernel<<<blocks(b.count), kThreads, 0, stream_of(context)>>>(
        b, in<float>(context, 0), in<float>(context, 1), key_of(context.attrs), out<uint8_t>(context, 0),
        out<float>(context, 1));
}

__global__ void dequantise_kernel(Buckets b, const uint8_t* codes, const float* norms, int64_t rows,
                                  float* y) {
  const int64_t i = global_thread();
  if (i >= b.n) return;
  const int64_t bucket = i / b.size, at = i % b.size * b.bits;
  const unsigned minus = 1u << (b.bits - 1);
  float sum = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const uint8_t* const from = codes + (row * b.count + bucket) * b.bytes + at / 8;
    unsigned two = from[0];
    if (at % 8 + b.bits > 8) two |= static_cast<unsigned>(from[1]) << 8;
    const unsigned code = two >> (at % 8) & ((1u << b.bits) - 1);
    const float unit = norms[row * b.count + bucket] / static_cast<float>(b.levels);
    const float size = unit * static_cast<float>(code & (minus - 1));
    sum += code & minus ? -size : size;
  }
  y[i] = sum;
}
void dequantise(const KernelContext& context) {
  const Buckets b(context.attrs, context.outputs[0].elements(), context.inputs[1].shape[1],
                  context.inputs[0].shape[1]);
  if (b.n > 0)
    dequantise_kernel<<<blocks_of(b.n), kThreads, 0, stream_of(context)>>>(
        b, in<uint8_t>(context, 0), in<float>(context, 1), context.inputs[0].shape[0],
        out<float>(context, 0));
}

}  // namespace

void add_quantise(KernelTable& table) {
  table.add("threshold_pack", DType::f32, {threshold_pack});
  table.add("ternary_pack", DType::f32, {ternary_pack});
  table.add("ternary_unpack", DType::f32, {ternary_unpack});
  table.add("quantise", DType::f32, {quantise});
  table.add("dequantise", DType::f32, {dequantise});
}

}  // namespace trireme::cuda
