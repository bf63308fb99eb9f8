// cast: weights to 16 bits and their gradients back, many of them in one launch.
#include "trireme/kernels/cuda/many.cuh"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 256;

// Between the three formats, four elements at a time.
template <typename X, typename Y>
struct Conversion {
  static constexpr int kThreads = 256, kRounds = 4, kOfBlock = 4 * kThreads * kRounds;
  const X* x;
  Y* y;
  int64_t count;

  int64_t blocks() const { return ceil_div(count, kOfBlock); }
  __device__ void run(int64_t block) const {
    struct alignas(4 * sizeof(X)) From {
      X at[4];
    };
    struct alignas(4 * sizeof(Y)) To {
      Y at[4];
    };
#pragma unroll
    for (int round = 0; round < kRounds; ++round) {
      const int64_t first = block * kOfBlock + (round * kThreads + threadIdx.x) * 4;
      if (first + 4 <= count) {
        const From from = *reinterpret_cast<const From*>(x + first);
        To to;
#pragma unroll
        for (int j = 0; j < 4; ++j) to.at[j] = narrow<Y>(widen(from.at[j]));
        *reinterpret_cast<To*>(y + first) = to;
      } else {
        for (int64_t i = first; i < count; ++i) y[i] = narrow<Y>(widen(x[i]));
      }
    }
  }
};

// Any other, rare, by way of f32 as on the CPU.
__device__ float load_any(DType dtype, const void* x, int64_t i) {
  switch (dtype) {
    case DType::f64:
      return static_cast<float>(static_cast<const double*>(x)[i]);
    case DType::f32:
      return static_cast<const float*>(x)[i];
    case DType::f16:
      return widen(static_cast<const f16*>(x)[i]);
    case DType::bf16:
      return widen(static_cast<const bf16*>(x)[i]);
    case DType::i64:
      return static_cast<float>(static_cast<const int64_t*>(x)[i]);
    case DType::i32:
      return static_cast<float>(static_cast<const int32_t*>(x)[i]);
    default:
      return static_cast<const uint8_t*>(x)[i];
  }
}
__device__ void store_any(DType dtype, void* y, int64_t i, float value) {
  switch (dtype) {
    case DType::f64:
      static_cast<double*>(y)[i] = value;
      break;
    case DType::f32:
      static_cast<float*>(y)[i] = value;
      break;
    case DType::f16:
      static_cast<f16*>(y)[i] = narrow<f16>(value);
      break;
    case DType::bf16:
      static_cast<bf16*>(y)[i] = narrow<bf16>(value);
      break;
    case DType::i64:
      static_cast<int64_t*>(y)[i] = static_cast<int64_t>(value);
      break;
    case DType::i32:
      static_cast<int32_t*>(y)[i] = static_cast<int32_t>(value);
      break;
    default:
      static_cast<uint8_t*>(y)[i] = static_cast<uint8_t>(value);
  }
}
__global__ void cast_kernel(DType from, const void* x, DType to, void* y, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) store_any(to, y, i, load_any(from, x, i));
}

bool is_format(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

void cast_any(const KernelContext& context) {
  const TensorView &x = context.inputs[0], &y = context.outputs[0];
  const int64_t count = x.elements();
  if (count == 0) return;
  cast_kernel<<<blocks(ceil_div(count, kThreads)), kThreads, 0, stream_of(context)>>>(x.dtype, x.data,
                                                                                      y.dtype, y.data, count);
}

void cast_many(std::span<const KernelContext> contexts) {
  for (DType from : {DType::f32, DType::bf16, DType::f16}) {
    for (DType to : {DType::f32, DType::bf16, DType::f16}) {
      with_format(from, [&](auto x) {
        with_format(to, [&](auto y) {
          using Item = Conversion<decltype(x), decltype(y)>;
          std::vector<Item> list;
          for (const KernelContext& one : contexts) {
            if (one.inputs[0].dtype == from && one.outputs[0].dtype == to)
              list.push_back({in<decltype(x)>(one, 0), out<decltype(y)>(one, 0), one.inputs[0].elements()});
          }
          launch_items(list, stream_of(contexts[0]));
        });
      });
    }
  }
  for (const KernelContext& one : contexts) {
    if (!is_format(one.inputs[0].dtype) || !is_format(one.outputs[0].dtype)) cast_any(one);
  }
}
void cast(const KernelContext& context) {
  cast_many({&context, 1});
}

}  // namespace

void add_cast(KernelTable& table) {
  const Kernel kernel{.run = cast, .run_many = cast_many};
  add_for_all_formats(table, "cast", kernel);
  table.add("cast", DType::f64, kernel);
}

}  // namespace trireme::cuda
