// total_squares: the norm of all gradients. Each block sums a stretch of one tensor; then one block adds all
// stretches up in a fixed order.
#include "trireme/kernels/cuda/many.cuh"

namespace trireme::cuda {
namespace {

constexpr int64_t kStretch = 16384;  // elements of a block
constexpr int kTotalThreads = 1024;

template <typename T>
struct Squares {
  static constexpr int kThreads = 256;
  const T* x;
  int64_t count;
  float* partial;  // one for each block

  int64_t blocks() const { return ceil_div(count, kStretch); }
  __device__ void run(int64_t block) const {
    const int64_t begin = block * kStretch, end = min(begin + kStretch, count);
    float sum = 0;
    for (int64_t i = begin + int64_t{threadIdx.x} * kPack<T>; i < end; i += kThreads * kPack<T>) {
      if (i + kPack<T> <= end) {
        const Pack<T> pack = load_pack(x + i);
#pragma unroll
        for (int j = 0; j < kPack<T>; ++j) sum = fmaf(widen(pack.at[j]), widen(pack.at[j]), sum);
      } else {
        for (int64_t k = i; k < end; ++k) sum = fmaf(widen(x[k]), widen(x[k]), sum);
      }
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0) partial[block] = sum;
  }
};

// One block.
__global__ void total_kernel(const float* partial, int64_t count, float* y) {
  double sum = 0;
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += partial[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *y = static_cast<float>(sum);
}

void total_squares(const KernelContext& context) {
  float* const partial = reinterpret_cast<float*>(context.workspace);
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    std::vector<Squares<T>> list;
    int64_t stretches = 0;
    for (size_t i = 0; i < context.inputs.size(); ++i) {
      list.push_back(
          {in<T>(context, static_cast<int>(i)), context.inputs[i].elements(), partial + stretches});
      stretches += list.back().blocks();
    }
    launch_items(list, stream_of(context));
    total_kernel<<<1, kTotalThreads, 0, stream_of(context)>>>(partial, stretches, out<float>(context, 0));
  });
}

size_t workspace(const KernelShape& shape) {
  size_t stretches = 0;
  for (const TensorType& input : shape.inputs)
    stretches += static_cast<size_t>(ceil_div(input.shape.elements(), kStretch));
  return stretches * sizeof(float);
}

}  // namespace

void add_total_squares(KernelTable& table) {
  add_for_all_formats(table, "total_squares", {total_squares, workspace});
}

}  // namespace trireme::cuda
