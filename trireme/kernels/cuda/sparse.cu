// top_k, scatter_add and clear_at. The k-th largest magnitude is found by three counts of bits, from the
// highest down; then chunks count what they have of it and above, so that each knows where its own begin
// among the chosen. Counts are whole numbers: the result does not depend on the order of the work.
#include <algorithm>
#include <cmath>

#include "trireme/kernels/cuda/device.cuh"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256, kBins = 2048, kEach = 8;
constexpr int kChunk = kThreads * kEach;

// What is known of the k-th largest so far, on the device.
struct Selection {
  uint32_t least;      // its bits
  long long wanted;    // its number among those that share them; at the end how many equal to it are chosen
  uint32_t guess;      // of the sampled elements
  long long as_large;  // elements at least as large as the guess
};
struct ChunkCounts {
  int above, equal;
};

struct SelectionSpace {
  Selection* selection;
  unsigned* counts;  // of each bin
  ChunkCounts* chunks;
  size_t bytes;
  SelectionSpace(std::byte* memory, int64_t elements) {
    const int64_t chunk_count = ceil_div(elements, kChunk);
    selection = reinterpret_cast<Selection*>(memory);
    counts = reinterpret_cast<unsigned*>(memory + 64);
    chunks = reinterpret_cast<ChunkCounts*>(memory + 64 + kBins * sizeof(unsigned));
    bytes = 64 + kBins * sizeof(unsigned) + static_cast<size_t>(chunk_count) * sizeof(ChunkCounts);
  }
};

__device__ uint32_t magnitude(float x) {
  return __float_as_uint(x) & 0x7fffffffu;
}

__global__ void start_kernel(Selection* selection, unsigned* counts, long long wanted) {
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) counts[bin] = 0;
  if (threadIdx.x == 0) {
    selection->least = 0;
    selection->wanted = wanted;
  }
}

// Counts the next bits of those elements that share the bits known so far; every `stride`-th is looked at.
__global__ void count_bits_kernel(const float* x, int64_t count, int64_t stride, const Selection* selection,
                                  int shift, int above, unsigned* counts) {
  __shared__ unsigned own[kBins];
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) own[bin] = 0;
  __syncthreads();
  const uint32_t known = selection->least;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x) {
    const uint32_t here = magnitude(x[i * stride]);
    if (((here ^ known) >> above) == 0) atomicAdd(own + ((here & ((1u << above) - 1)) >> shift), 1u);
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) {
    if (own[bin] > 0) atomicAdd(counts + bin, own[bin]);
  }
}

// The bin from the top of which the wanted one is in. One thread: there are 2,048 bins.
__global__ void choose_bin_kernel(Selection* selection, unsigned* counts, int shift) {
  if (threadIdx.x == 0) {
    long long wanted = selection->wanted;
    int bin = kBins - 1;
    for (; bin > 0 && counts[bin] < wanted; --bin) wanted -= counts[bin];
    selection->least |= static_cast<uint32_t>(bin) << shift;
    selection->wanted = wanted;
  }
  __syncthreads();
  for (int bin = threadIdx.x; bin < kBins; bin += blockDim.x) counts[bin] = 0;
}

__global__ void keep_guess_kernel(Selection* selection) {
  selection->guess = selection->least;
  selection->as_large = 0;
}
__global__ void count_as_large_kernel(const float* x, int64_t count, Selection* selection) {
  int own = 0;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += int64_t{gridDim.x} * blockDim.x)
    own += magnitude(x[i]) >= selection->guess;
  own = block_sum(own);
  if (threadIdx.x == 0)
    atomicAdd(reinterpret_cast<unsigned long long*>(&selection->as_large),
              static_cast<unsigned long long>(own));
}

// What is chosen: magnitudes above `least`, of those equal to it the first `ties`, and the first `others` of
// the rest, where a guess from samples was too high.
struct Chosen {
  uint32_t least;
  long long ties, others;
  __device__ Chosen(const Selection& s, long long k, bool sampled)
      : least(s.least), ties(s.wanted), others(0) {
    if (!sampled || s.as_large >= k) return;
    least = s.guess;
    ties = k;
    others = k - s.as_large;
  }
  __device__ long long before(long long index, long long above, long long equal) const {
    return above + min(equal, ties) + min(index - above - equal, others);
  }
};

__global__ void count_chunks_kernel(const float* x, int64_t count, const Selection* selection, long long k,
                                    bool sampled, ChunkCounts* chunks) {
  const Chosen chosen(*selection, k, sampled);
  int above = 0, equal = 0;
  for (int j = 0; j < kEach; ++j) {
    const int64_t i = int64_t{blockIdx.x} * kChunk + j * kThreads + threadIdx.x;
    if (i >= count) break;
    const uint32_t here = magnitude(x[i]);
    above += here > chosen.least;
    equal += here == chosen.least;
  }
  above = block_sum(above);
  equal = block_sum(equal);
  if (threadIdx.x == 0) chunks[blockIdx.x] = {above, equal};
}

// What lies before this thread in the block; `total` becomes that of the block. Of whole warps.
__device__ int before_in_block(int own, int& total) {
  __shared__ int warps[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int upto = own;
  for (int distance = 1; distance < 32; distance *= 2) {
    const int left = __shfl_up_sync(~0u, upto, distance);
    if (lane >= distance) upto += left;
  }
  __syncthreads();
  if (lane == 31) warps[warp] = upto;
  __syncthreads();
  int before = upto - own;
  total = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w) {
    if (w < warp) before += warps[w];
    total += warps[w];
  }
  return before;
}

// Counts of chunks become those of all chunks before. One block.
__global__ void add_chunks_kernel(ChunkCounts* chunks, int64_t count) {
  int above = 0, equal = 0;
  for (int64_t first = 0; first < count; first += blockDim.x) {
    const int64_t i = first + threadIdx.x;
    const ChunkCounts own = i < count ? chunks[i] : ChunkCounts{0, 0};
    int all_above, all_equal;
    const int above_here = before_in_block(own.above, all_above),
              equal_here = before_in_block(own.equal, all_equal);
    if (i < count) chunks[i] = {above + above_here, equal + equal_here};
    above += all_above;
    equal += all_equal;
  }
}

// Each thread takes kEach neighbours, so that what it finds is in order. `rest` may be x.
__global__ void take_kernel(const float* x, int64_t count, const Selection* selection, long long k,
                            bool sampled, const ChunkCounts* chunks, float* values, int32_t* indices,
                            float* rest) {
  const Chosen chosen(*selection, k, sampled);
  const int64_t first = int64_t{blockIdx.x} * kChunk + int64_t{threadIdx.x} * kEach;
  float own[kEach];
  int above = 0, equal = 0;
  for (int j = 0; j < kEach; ++j) {
    if (first + j >= count) break;
    own[j] = x[first + j];
    above += magnitude(own[j]) > chosen.least;
    equal += magnitude(own[j]) == chosen.least;
  }
  int total;
  long long above_before = chunks[blockIdx.x].above + before_in_block(above, total);
  long long equal_before = chunks[blockIdx.x].equal + before_in_block(equal, total);
  for (int j = 0; j < kEach; ++j) {
    const int64_t i = first + j;
    if (i >= count) break;
    const uint32_t here = magnitude(own[j]);
    const long long place = chosen.before(i, above_before, equal_before);
    above_before += here > chosen.least;
    equal_before += here == chosen.least;
    const bool taken = chosen.before(i + 1, above_before, equal_before) > place;
    if (taken) {
      values[place] = own[j];
      indices[place] = static_cast<int32_t>(i);
    }
    rest[i] = taken ? 0.0f : own[j];
  }
}

void select_kth(const KernelContext& context, const SelectionSpace& space, const float* x, int64_t count,
                int64_t stride, long long wanted) {
  const cudaStream_t stream = stream_of(context);
  start_kernel<<<1, kThreads, 0, stream>>>(space.selection, space.counts, wanted);
  const unsigned grid = blocks(std::clamp<int64_t>(ceil_div(count, kChunk), 1, 1056));
  for (const int shift : {20, 10, 0}) {
    count_bits_kernel<<<grid, kThreads, 0, stream>>>(x, count, stride, space.selection, shift,
                                                     shift == 20 ? 31 : shift + 10, space.counts);
    choose_bin_kernel<<<1, kThreads, 0, stream>>>(space.selection, space.counts, shift);
  }
}

void top_k(const KernelContext& context) {
  const int64_t n = context.inputs[0].elements(), k = context.outputs[0].elements();
  const float* const x = in<float>(context, 0);
  float* const rest = out<float>(context, 2);
  const cudaStream_t stream = stream_of(context);
  if (k == 0) {
    if (rest != x && n > 0)
      check(cudaMemcpyAsync(rest, x, context.inputs[0].bytes(), cudaMemcpyDeviceToDevice, stream),
            "a copy on the device");
    return;
  }
  const SelectionSpace space(context.workspace, n);
  const double share = context.attrs.real("sampled", 0);
  const bool sampled = share > 0;
  if (sampled) {
    const int64_t stride = std::max<int64_t>(1, std::llround(1 / share)), looked = ceil_div(n, stride);
    const long long wanted = std::llround(static_cast<double>(k * looked) / static_cast<double>(n));
    select_kth(context, space, x, looked, stride, std::clamp<long long>(wanted, 1, looked));
    keep_guess_kernel<<<1, 1, 0, stream>>>(space.selection);
    count_as_large_kernel<<<blocks(std::clamp<int64_t>(ceil_div(n, kChunk), 1, 1056)), kThreads, 0, stream>>>(
        x, n, space.selection);
  }
  select_kth(context, space, x, n, 1, k);
  const int64_t chunks = ceil_div(n, kChunk);
  count_chunks_kernel<<<blocks(chunks), kThreads, 0, stream>>>(x, n, space.selection, k, sampled,
                                                               space.chunks);
  add_chunks_kernel<<<1, 1024, 0, stream>>>(space.chunks, chunks);
  take_kernel<<<blocks(chunks), kThreads, 0, stream>>>(x, n, space.selection, k, sampled, space.chunks,
                                                       out<float>(context, 0), out<int32_t>(context, 1),
                                                       rest);
}

size_t top_k_workspace(const KernelShape& shape) {
  return SelectionSpace(nullptr, shape.inputs[0].shape.elements()).bytes;
}

// Indices of a row ascend; the first of equal ones adds all of them, in order.
__global__ void add_row_kernel(const float* values, const int32_t* indices, int64_t count, float* y,
                               int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const int32_t index = indices[i];
  if (index < 0 || index >= n || (i > 0 && indices[i - 1] == index)) return;
  float sum = y[index];
  for (int64_t j = i; j < count && indices[j] == index; ++j) sum += values[j];
  y[index] = sum;
}

void scatter_add(const KernelContext& context) {
  const int64_t rows = context.inputs[0].shape[0], k = context.inputs[0].shape[1];
  const int64_t n = context.outputs[0].elements();
  if (n == 0) return;
  float* const y = out<float>(context, 0);
  check(cudaMemsetAsync(y, 0, context.outputs[0].bytes(), stream_of(context)), "zeros on the device");
  for (int64_t row = 0; row < rows && k > 0; ++row)
    add_row_kernel<<<blocks(ceil_div(k, kThreads)), kThreads, 0, stream_of(context)>>>(
        in<float>(context, 0) + row * k, in<int32_t>(context, 1) + row * k, k, y, n);
}

__global__ void clear_kernel(const int32_t* indices, int64_t count, float* y, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count && indices[i] >= 0 && indices[i] < n) y[indices[i]] = 0;
}

void clear_at(const KernelContext& context) {
  const int64_t n = context.outputs[0].elements(), count = context.inputs[1].elements();
  float* const y = out<float>(context, 0);
  if (n > 0 && y != in<float>(context, 0))
    check(cudaMemcpyAsync(y, in<float>(context, 0), context.outputs[0].bytes(), cudaMemcpyDeviceToDevice,
                          stream_of(context)),
          "a copy on the device");
  if (count > 0)
    clear_kernel<<<blocks(ceil_div(count, kThreads)), kThreads, 0, stream_of(context)>>>(
        in<int32_t>(context, 1), count, y, n);
}

}  // namespace

void add_sparse(KernelTable& table) {
  table.add("top_k", DType::f32, {top_k, top_k_workspace});
  table.add("scatter_add", DType::f32, {scatter_add});
  table.add("clear_at", DType::f32, {clear_at});
}

}  // namespace trireme::cuda
