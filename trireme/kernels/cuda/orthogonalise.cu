// orthogonalise, of which there is little to compute: one block.
#include <algorithm>

#include "trireme/kernels/cuda/device.cuh"

namespace trireme::cuda {
namespace {

// Modified Gram-Schmidt on the columns of a tall and narrow matrix, as kernels/cpu/orthogonalise.cc has it:
// all threads of the block call each of these.
struct Columns {
  float* data;
  int64_t rows, columns;

  __device__ float& at(int64_t row, int64_t column) const { return data[row * columns + column]; }
  __device__ double product(int64_t a, int64_t b) const {
    __syncthreads();
    double sum = 0;
    for (int64_t i = threadIdx.x; i < rows; i += blockDim.x) sum += static_cast<double>(at(i, a)) * at(i, b);
    return block_sum(sum);
  }
  __device__ void take_off_those_before(int64_t column) const {
    for (int64_t other = 0; other < column; ++other) {
      const double times = product(column, other);
      for (int64_t i = threadIdx.x; i < rows; i += blockDim.x)
        at(i, column) = static_cast<float>(at(i, column) - times * at(i, other));
    }
  }
  // Makes it orthogonal to those before it and of length 1; false where hardly anything is left of it.
  __device__ bool settle(int64_t column) const {
    constexpr double kLeast = 1e-6;
    const double before = sqrt(product(column, column));
    take_off_those_before(column);
    const double left = sqrt(product(column, column));
    if (!(left > kLeast * before)) return !isfinite(before);  // not a number: as it is
    take_off_those_before(column);  // once more, because much may have been taken off and with it digits
    const double length = sqrt(product(column, column));
    for (int64_t i = threadIdx.x; i < rows; i += blockDim.x)
      at(i, column) = static_cast<float>(at(i, column) / length);
    return true;
  }
  __device__ void set_unit(int64_t column, int64_t row) const {
    __syncthreads();
    for (int64_t i = threadIdx.x; i < rows; i += blockDim.x) at(i, column) = i == row ? 1.0f : 0.0f;
  }
};

__global__ void orthogonalise_kernel(Columns matrix) {
  for (int64_t column = 0; column < matrix.columns; ++column) {
    bool settled = matrix.settle(column);
    for (int64_t row = 0; row < matrix.rows && !settled; ++row) {
      matrix.set_unit(column, row);
      settled = matrix.settle(column);
    }
  }
}
void orthogonalise(const KernelContext& context) {
  const TensorView& x = context.inputs[0];
  float* const y = out<float>(context, 0);
  if (x.elements() == 0) return;
  if (y != x.data)
    check(cudaMemcpyAsync(y, x.data, x.bytes(), cudaMemcpyDeviceToDevice, stream_of(context)),
          "a copy on the device");
  orthogonalise_kernel<<<1, 1024, 0, stream_of(context)>>>({y, x.shape[0], x.shape[1]});
}

}  // namespace

void add_orthogonalise(KernelTable& table) {
  table.add("orthogonalise", DType::f32, {orthogonalise});
}

}  // namespace trireme::cuda
