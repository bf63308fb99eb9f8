// Signs packed, voted on and unpacked, a thread for each byte; and rows of signs with two means, a block for
// each row.
#include <algorithm>

#include "trireme/kernels/cuda/device.cuh"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256;

__device__ int64_t thread_index() {
  return int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
unsigned blocks_for(int64_t threads) {
  return blocks(ceil_div(threads, kThreads));
}

// The signs of up to eight elements.
__device__ uint8_t packed_signs(const float* x, int64_t count) {
  unsigned byte = 0;
  for (int64_t i = 0; i < 8 && i < count; ++i) byte |= static_cast<unsigned>(x[i] >= 0) << i;
  return static_cast<uint8_t>(byte);
}

__global__ void sign_pack_kernel(const float* x, int64_t n, uint8_t* bits, int64_t bytes) {
  const int64_t i = thread_index();
  if (i < bytes) bits[i] = packed_signs(x + 8 * i, n - 8 * i);
}
void sign_pack(const KernelContext& context) {
  const int64_t bytes = context.outputs[0].elements();
  if (bytes > 0)
    sign_pack_kernel<<<blocks_for(bytes), kThreads, 0, stream_of(context)>>>(
        in<float>(context, 0), context.inputs[0].elements(), out<uint8_t>(context, 0), bytes);
}

__global__ void sign_vote_kernel(const uint8_t* bits, int64_t rows, int64_t bytes, uint8_t* votes) {
  const int64_t i = thread_index();
  if (i >= bytes) return;
  unsigned byte = 0;
  for (int bit = 0; bit < 8; ++bit) {
    int64_t set = 0;
    for (int64_t row = 0; row < rows; ++row) set += (bits[row * bytes + i] >> bit) & 1;
    const bool first = rows > 0 && ((bits[i] >> bit) & 1);
    byte |= static_cast<unsigned>(2 * set > rows || (2 * set == rows && first)) << bit;
  }
  votes[i] = static_cast<uint8_t>(byte);
}
void sign_vote(const KernelContext& context) {
  const int64_t rows = context.inputs[0].shape[0], bytes = context.inputs[0].shape[1];
  if (bytes > 0)
    sign_vote_kernel<<<blocks_for(bytes), kThreads, 0, stream_of(context)>>>(in<uint8_t>(context, 0), rows,
                                                                             bytes, out<uint8_t>(context, 0));
}

__global__ void sign_unpack_kernel(const uint8_t* bits, const float* unit, float* y, int64_t n) {
  const int64_t i = thread_index();
  if (i < n) y[i] = (bits[i / 8] >> (i % 8)) & 1 ? *unit : -*unit;
}
void sign_unpack(const KernelContext& context) {
  const int64_t n = context.outputs[0].elements();
  if (n > 0)
    sign_unpack_kernel<<<blocks_for(n), kThreads, 0, stream_of(context)>>>(
        in<uint8_t>(context, 0), in<float>(context, 1), out<float>(context, 0), n);
}

// Rows that fill up are empty.
__global__ void one_bit_pack_kernel(const float* x, int64_t rows, int64_t columns, uint8_t* bits,
                                    int64_t bytes, float* means) {
  const int64_t row = blockIdx.x, here = row < rows ? columns : 0;
  const float* const own = x + row * columns;
  double negative = 0, other = 0;
  int negatives = 0;
  for (int64_t i = threadIdx.x; i < here; i += blockDim.x) {
    const bool below = !(own[i] >= 0);
    negatives += below;
    (below ? negative : other) += static_cast<double>(own[i]);
  }
  negative = block_sum(negative);
  other = block_sum(other);
  negatives = block_sum(negatives);
  if (threadIdx.x == 0) {
    const int64_t others = here - negatives;
    means[2 * row] = negatives == 0 ? 0.0f : static_cast<float>(negative / negatives);
    means[2 * row + 1] = others == 0 ? 0.0f : static_cast<float>(other / static_cast<double>(others));
  }
  for (int64_t i = threadIdx.x; i < bytes; i += blockDim.x)
    bits[row * bytes + i] = here == 0 ? uint8_t{0} : packed_signs(own + 8 * i, columns - 8 * i);
}
void one_bit_pack(const KernelContext& context) {
  const int64_t all_rows = context.outputs[0].shape[0];
  if (all_rows > 0)
    one_bit_pack_kernel<<<blocks(all_rows), kThreads, 0, stream_of(context)>>>(
        in<float>(context, 0), context.inputs[0].shape[0], context.inputs[0].shape[1],
        out<uint8_t>(context, 0), context.outputs[0].shape[1], out<float>(context, 1));
}

__global__ void one_bit_unpack_kernel(const uint8_t* bits, const float* means, int64_t columns, int64_t bytes,
                                      float* x, int64_t n) {
  const int64_t i = thread_index();
  if (i >= n) return;
  const int64_t row = i / columns, column = i % columns;
  x[i] = means[2 * row + ((bits[row * bytes + column / 8] >> (column % 8)) & 1)];
}
void one_bit_unpack(const KernelContext& context) {
  const int64_t n = context.outputs[0].elements();
  if (n > 0)
    one_bit_unpack_kernel<<<blocks_for(n), kThreads, 0, stream_of(context)>>>(
        in<uint8_t>(context, 0), in<float>(context, 1), context.outputs[0].shape[1],
        context.inputs[0].shape[1], out<float>(context, 0), n);
}

}  // namespace

void add_bits(KernelTable& table) {
  table.add("sign_pack", DType::f32, {sign_pack});
  table.add("sign_vote", DType::u8, {sign_vote});
  table.add("sign_unpack", DType::f32, {sign_unpack});
  table.add("one_bit_pack", DType::f32, {one_bit_pack});
  table.add("one_bit_unpack", DType::f32, {one_bit_unpack});
}

}  // namespace trireme::cuda
