// embedding: rows of a table by id. Its gradient adds up tokens row by row, in their order, without atomic
// additions of floats: a stable radix sort brings the tokens of a row together first.
#include <algorithm>

#include "trireme/kernels/cuda/device.cuh"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 128;

template <typename T>
__global__ void embedding_kernel(const T* table, const int32_t* ids, T* y, int64_t rows, int64_t width,
                                 int64_t offset) {
  const int64_t token = blockIdx.x, row = ids[token] - offset;
  const bool held = row >= 0 && row < rows;
  for (int64_t i = threadIdx.x; i < width; i += blockDim.x)
    y[token * width + i] = held ? table[row * width + i] : narrow<T>(0);
}

void embedding(const KernelContext& context) {
  const Shape& table = context.inputs[0].shape;
  const int64_t tokens = context.inputs[1].elements();
  if (tokens == 0 || table[1] == 0) return;
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    embedding_kernel<<<blocks(tokens), kThreads, 0, stream_of(context)>>>(
        in<T>(context, 0), in<int32_t>(context, 1), out<T>(context, 0), table[0], table[1],
        context.attrs.integer("row_offset", 0));
  });
}

// A token and the row of the table that it belongs to.
struct Entry {
  int32_t row, token;
};

// Sorting by `kDigits` values of a digit at a time, least digit first. A block takes kTile entries.
constexpr int kBits = 8, kDigits = 1 << kBits, kTile = 1024;

// Entries of rows that the table does not hold get row `rows`, past the end.
__global__ void make_entries(const int32_t* ids, int64_t tokens, int64_t offset, int64_t rows,
                             Entry* entries) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= tokens) return;
  const int64_t row = ids[i] - offset;
  entries[i] = {static_cast<int32_t>(row >= 0 && row < rows ? row : rows), static_cast<int32_t>(i)};
}

// counts[digit][block]: how many entries of the block have the digit.
__global__ void count_digits(const Entry* entries, int64_t tokens, int shift, int32_t* counts) {
  __shared__ int32_t mine[kDigits];
  if (threadIdx.x < kDigits) mine[threadIdx.x] = 0;
  __syncthreads();
  const int64_t i = int64_t{blockIdx.x} * kTile + threadIdx.x;
  if (i < tokens) atomicAdd(&mine[(entries[i].row >> shift) & (kDigits - 1)], 1);
  __syncthreads();
  if (threadIdx.x < kDigits) counts[int64_t{threadIdx.x} * gridDim.x + blockIdx.x] = mine[threadIdx.x];
}

// Exclusive sums in place, by one block: each thread takes a run of neighbours.
__global__ void exclusive_sums(int32_t* values, int64_t count) {
  __shared__ int32_t totals[1024];
  const int64_t each = (count + blockDim.x - 1) / blockDim.x, first = threadIdx.x * each;
  const int64_t last = min(first + each, count);
  int32_t sum = 0;
  for (int64_t i = first; i < last; ++i) sum += values[i];
  totals[threadIdx.x] = sum;
  __syncthreads();
  for (int step = 1; step < blockDim.x; step *= 2) {
    const int32_t before = threadIdx.x >= step ? totals[threadIdx.x - step] : 0;
    __syncthreads();
    totals[threadIdx.x] += before;
    __syncthreads();
  }
  int32_t at = totals[threadIdx.x] - sum;
  for (int64_t i = first; i < last; ++i) {
    const int32_t value = values[i];
    values[i] = at;
    at += value;
  }
}

// An entry's place: those of smaller digits and of blocks before, and of this block those before it.
__global__ void place_entries(const Entry* from, int64_t tokens, int shift, const int32_t* counts,
                              Entry* to) {
  __shared__ uint8_t digits[kTile];
  const int64_t i = int64_t{blockIdx.x} * kTile + threadIdx.x;
  const Entry entry = i < tokens ? from[i] : Entry{};
  const int digit = (entry.row >> shift) & (kDigits - 1);
  digits[threadIdx.x] = static_cast<uint8_t>(digit);
  __syncthreads();
  if (i >= tokens) return;
  int before = 0;
  for (int j = 0; j < threadIdx.x; ++j) before += digits[j] == digit ? 1 : 0;
  to[counts[int64_t{digit} * gridDim.x + blockIdx.x] + before] = entry;
}

// starts[row]: its first sorted entry; rows without tokens start where the next one does.
__global__ void find_starts(const Entry* entries, int64_t tokens, int64_t rows, int32_t* starts) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i > tokens) return;
  const int64_t before = i == 0 ? -1 : entries[i - 1].row, here = i == tokens ? rows : entries[i].row;
  for (int64_t row = before + 1; row <= here && row <= rows; ++row) starts[row] = static_cast<int32_t>(i);
}

template <typename T>
__global__ void add_tokens(const T* dy, const Entry* entries, const int32_t* starts, T* dtable,
                           int64_t width) {
  const int64_t row = blockIdx.x, column = int64_t{blockIdx.y} * blockDim.x + threadIdx.x;
  if (column >= width) return;
  float sum = 0;
  for (int32_t i = starts[row]; i < starts[row + 1]; ++i) sum += widen(dy[entries[i].token * width + column]);
  dtable[row * width + column] = narrow<T>(sum);
}

struct Scratch {
  int64_t rows, tokens, tiles;
  Scratch(const Shape& dtable, int64_t number_of_tokens)
      : rows(dtable[0]), tokens(number_of_tokens), tiles(ceil_div(number_of_tokens, kTile)) {}
  size_t entries_bytes() const { return ceil_div(tokens * int64_t{sizeof(Entry)}, 64) * 64; }
  size_t starts_bytes() const { return ceil_div((rows + 1) * int64_t{sizeof(int32_t)}, 64) * 64; }
  size_t counts_bytes() const {
    return static_cast<size_t>(kDigits * std::max<int64_t>(1, tiles)) * sizeof(int32_t);
  }
  size_t bytes() const { return 2 * entries_bytes() + starts_bytes() + counts_bytes(); }
};

void embedding_grad(const KernelContext& context) {
  const Shape& dtable = context.outputs[0].shape;
  const int64_t width = dtable[1];
  const Scratch s(dtable, context.inputs[1].elements());
  if (s.rows == 0 || width == 0) return;
  Entry* entries = reinterpret_cast<Entry*>(context.workspace);
  Entry* other = reinterpret_cast<Entry*>(context.workspace + s.entries_bytes());
  int32_t* const starts = reinterpret_cast<int32_t*>(context.workspace + 2 * s.entries_bytes());
  int32_t* const counts =
      reinterpret_cast<int32_t*>(context.workspace + 2 * s.entries_bytes() + s.starts_bytes());
  const cudaStream_t stream = stream_of(context);
  if (s.tokens > 0) {
    make_entries<<<blocks(ceil_div(s.tokens, 256)), 256, 0, stream>>>(
        in<int32_t>(context, 1), s.tokens, context.attrs.integer("row_offset", 0), s.rows, entries);
    for (int shift = 0; s.rows >> shift > 0; shift += kBits) {
      count_digits<<<blocks(s.tiles), kTile, 0, stream>>>(entries, s.tokens, shift, counts);
      exclusive_sums<<<1, 1024, 0, stream>>>(counts, kDigits * s.tiles);
      place_entries<<<blocks(s.tiles), kTile, 0, stream>>>(entries, s.tokens, shift, counts, other);
      std::swap(entries, other);
    }
  }
  find_starts<<<blocks(ceil_div(s.tokens + 1, 256)), 256, 0, stream>>>(entries, s.tokens, s.rows, starts);
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    add_tokens<<<dim3(blocks(s.rows), blocks(ceil_div(width, kThreads))), kThreads, 0, stream>>>(
        in<T>(context, 0), entries, starts, out<T>(context, 0), width);
  });
}

size_t embedding_grad_workspace(const KernelShape& shape) {
  return Scratch(shape.outputs[0].shape, shape.inputs[1].shape.elements()).bytes();
}

}  // namespace

void add_embedding(KernelTable& table) {
  add_for_all_formats(table, "embedding", {embedding});
  add_for_all_formats(table, "embedding_grad", {embedding_grad, embedding_grad_workspace});
}

}  // namespace trireme::cuda
