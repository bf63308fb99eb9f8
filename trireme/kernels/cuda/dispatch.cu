// dispatch, combine and slot_products: rows of tokens to slots of experts and back. Results gather what they
// are made of, in the order of choices: combine by the tokens' slots, dispatch by a map from slots to
// choices.
#include "trireme/kernels/cuda/device.cuh"

namespace trireme::cuda {
namespace {

constexpr int kThreads = 128;

// Where a slot's row is in d [e g c m]; −1 for one of no expert here.
struct Places {
  int experts, capacity, offset;
  int64_t groups;

  Places(const Shape& d, const Attrs& attrs)
      : experts(static_cast<int>(d[0])),
        capacity(static_cast<int>(d[2])),
        offset(static_cast<int>(attrs.integer("expert_offset", 0))),
        groups(d[1]) {}
  __device__ int64_t row(int64_t group, int32_t at) const {
    if (at < 0 || capacity == 0) return -1;
    const int expert = at / capacity - offset;
    if (expert < 0 || expert >= experts) return -1;
    return (expert * groups + group) * capacity + at % capacity;
  }
};

// The first and the last of a group's choices that have a slot: mostly the same. None, if all their bytes
// are 255.
struct SlotChoices {
  uint32_t first;
  int32_t last;
};

// Minima and maxima of integers are the same in any order.
__global__ void find_choices(const int32_t* at, int64_t choices, int64_t in_group, Places places,
                             SlotChoices* slots) {
  const int64_t n = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (n >= choices) return;
  const int64_t row = places.row(n / in_group, at[n]);
  if (row < 0) return;
  atomicMin(&slots[row].first, static_cast<uint32_t>(n % in_group));
  atomicMax(&slots[row].last, static_cast<int32_t>(n % in_group));
}

template <typename T, int kCount>
__device__ void add_row(const T* from, float weight, float (&sum)[kCount]) {
  float values[kCount];
  load_floats<kCount>(from, values);
#pragma unroll
  for (int j = 0; j < kCount; ++j) sum[j] += weight * values[j];
}

// A block for each slot.
template <typename T, int kCount>
__global__ void dispatch_kernel(const T* x, const int32_t* at, const float* w, const SlotChoices* slots, T* d,
                                int64_t in_group, int64_t k, int64_t width, Places places) {
  const int64_t row = blockIdx.x, group = row / places.capacity % places.groups;
  const SlotChoices choices = slots[row];
  at += group * in_group;
  for (int64_t i = int64_t{threadIdx.x} * kCount; i < width; i += blockDim.x * kCount) {
    float sum[kCount] = {};
    for (int64_t n = choices.first; n <= choices.last; ++n) {
      if (places.row(group, at[n]) != row) continue;
      const int64_t choice = group * in_group + n;
      add_row<T, kCount>(x + choice / k * width + i, w ? w[choice] : 1, sum);
    }
    store_floats<kCount>(d + row * width + i, sum);
  }
}

void dispatch(const KernelContext& context) {
  const TensorView &x = context.inputs[0], &at = context.inputs[1], &d = context.outputs[0];
  if (d.elements() == 0) return;
  const int64_t width = x.shape[2], k = at.shape[2], in_group = at.shape[1] * k;
  TRIREME_CHECK(in_group <= INT32_MAX);
  const Places places(d.shape, context.attrs);
  SlotChoices* const slots = reinterpret_cast<SlotChoices*>(context.workspace);
  const int64_t rows = d.elements() / width;
  const cudaStream_t stream = stream_of(context);
  check(cudaMemsetAsync(slots, 255, static_cast<size_t>(rows) * sizeof(SlotChoices), stream), "dispatch");
  if (at.elements() > 0)
    find_choices<<<blocks(ceil_div(at.elements(), kThreads)), kThreads, 0, stream>>>(
        in<int32_t>(context, 1), at.elements(), in_group, places, slots);
  with_format(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    with_pack<T>(width, [&](auto count) {
      dispatch_kernel<T, count><<<blocks(rows), kThreads, 0, stream>>>(
          in<T>(context, 0), in<int32_t>(context, 1),
          context.inputs.size() == 3 ? in<float>(context, 2) : nullptr, slots, out<T>(context, 0), in_group,
          k, width, places);
    });
  });
}

size_t dispatch_workspace(const KernelShape& shape) {
  return static_cast<size_t>(shape.outputs[0].shape.elements(0, 3)) * sizeof(SlotChoices);
}

// A block for each token.
template <typename T, int kCount>
__global__ void combine_kernel(const T* d, const int32_t* at, const float* w, T* y, int64_t tokens, int64_t k,
                               int64_t width, Places places) {
  const int64_t token = blockIdx.x;
  for (int64_t i = int64_t{threadIdx.x} * kCount; i < width; i += blockDim.x * kCount) {
    float sum[kCount] = {};
    for (int64_t n = token * k; n < (token + 1) * k; ++n) {
      const int64_t row = places.row(token / tokens, at[n]);
      if (row >= 0) add_row<T, kCount>(d + row * width + i, w ? w[n] : 1, sum);
    }
    store_floats<kCount>(y + token * width + i, sum);
  }
}

void combine(const KernelContext& context) {
  const TensorView &d = context.inputs[0], &y = context.outputs[0];
  if (y.elements() == 0) return;
  const int64_t width = y.shape[2];
  with_format(d.dtype, [&](auto zero) {
    using T = decltype(zero);
    with_pack<T>(width, [&](auto count) {
      combine_kernel<T, count><<<blocks(y.elements() / width), kThreads, 0, stream_of(context)>>>(
          in<T>(context, 0), in<int32_t>(context, 1),
          context.inputs.size() == 3 ? in<float>(context, 2) : nullptr, out<T>(context, 0), y.shape[1],
          context.inputs[1].shape[2], width, Places(d.shape, context.attrs));
    });
  });
}

// A warp for each choice.
template <typename T, int kCount>
__global__ void slot_products_kernel(const T* x, const T* d, const int32_t* at, float* p, int64_t choices,
                                     int64_t in_group, int64_t k, int64_t width, Places places) {
  const int64_t choice = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;
  if (choice >= choices) return;
  const int64_t row = places.row(choice / in_group, at[choice]);
  const int lane = threadIdx.x % 32;
  float sum = 0;
  for (int64_t i = lane * kCount; row >= 0 && i < width; i += 32 * kCount) {
    float of_x[kCount], of_d[kCount];
    load_floats<kCount>(x + choice / k * width + i, of_x);
    load_floats<kCount>(d + row * width + i, of_d);
#pragma unroll
    for (int j = 0; j < kCount; ++j) sum += of_x[j] * of_d[j];
  }
  sum = warp_reduce(sum, Add());
  if (lane == 0) p[choice] = sum;
}

void slot_products(const KernelContext& context) {
  const TensorView &x = context.inputs[0], &p = context.outputs[0];
  if (p.elements() == 0) return;
  const int64_t width = x.shape[2], k = p.shape[2];
  with_format(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    with_pack<T>(width, [&](auto count) {
      slot_products_kernel<T, count>
          <<<blocks(ceil_div(p.elements() * 32, kThreads)), kThreads, 0, stream_of(context)>>>(
              in<T>(context, 0), in<T>(context, 1), in<int32_t>(context, 2), out<float>(context, 0),
              p.elements(), p.shape[1] * k, k, width, Places(context.inputs[1].shape, context.attrs));
    });
  });
}

}  // namespace

void add_dispatch(KernelTable& table) {
  add_for_all_formats(table, "dispatch", {dispatch, dispatch_workspace});
  add_for_all_formats(table, "combine", {combine});
  add_for_all_formats(table, "slot_products", {slot_products});
}

}  // namespace trireme::cuda
