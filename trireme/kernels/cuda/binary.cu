// Element-wise ops of two inputs, of which the second may repeat; compare and select.
#include "trireme/kernels/cuda/map.cuh"

namespace trireme::cuda {
namespace {

// clang-format off
struct AddOp { __device__ float operator()(float a, float b) const { return a + b; } };
struct SubOp { __device__ float operator()(float a, float b) const { return a - b; } };
struct MulOp { __device__ float operator()(float a, float b) const { return a * b; } };
struct DivOp { __device__ float operator()(float a, float b) const { return a / b; } };
// clang-format on

template <typename F>
void binary(const KernelContext& context) {
  map_two(context, F());
}

enum class Kind { kLt, kLe, kGt, kGe, kEq, kNe };

Kind kind_of(std::string_view text) {
  constexpr std::string_view kNames[] = {"lt", "le", "gt", "ge", "eq", "ne"};
  for (int i = 0; i < 6; ++i) {
    if (kNames[i] == text) return static_cast<Kind>(i);
  }
  throw_error("[compare] kind is '{}'; lt, le, gt, ge, eq or ne expected", text);
}

__device__ bool holds(Kind kind, float a, float b) {
  switch (kind) {
    case Kind::kLt:
      return a < b;
    case Kind::kLe:
      return a <= b;
    case Kind::kGt:
      return a > b;
    case Kind::kGe:
      return a >= b;
    case Kind::kEq:
      return a == b;
    default:
      return a != b;
  }
}

template <typename T>
__global__ void compare_kernel(const T* a, const T* b, int64_t period, uint8_t* y, int64_t count, Kind kind) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) y[i] = holds(kind, widen(a[i]), widen(b[i % period]));
}

void compare(const KernelContext& context) {
  const int64_t count = context.outputs[0].elements();
  if (count == 0) return;
  with_format(context.inputs[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    compare_kernel<<<blocks(ceil_div(count, kMapThreads)), kMapThreads, 0, stream_of(context)>>>(
        in<T>(context, 0), in<T>(context, 1), context.inputs[1].elements(), out<uint8_t>(context, 0), count,
        kind_of(context.attrs.text("kind")));
  });
}

template <typename T>
__global__ void select_kernel(const uint8_t* c, const T* a, const T* b, T* y, int64_t count) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) y[i] = c[i] ? a[i] : b[i];
}

void select(const KernelContext& context) {
  const int64_t count = context.outputs[0].elements();
  if (count == 0) return;
  with_format(context.inputs[1].dtype, [&](auto zero) {
    using T = decltype(zero);
    select_kernel<<<blocks(ceil_div(count, kMapThreads)), kMapThreads, 0, stream_of(context)>>>(
        in<uint8_t>(context, 0), in<T>(context, 1), in<T>(context, 2), out<T>(context, 0), count);
  });
}

}  // namespace

void add_binary(KernelTable& table) {
  add_for_all_formats(table, "add", {binary<AddOp>});
  add_for_all_formats(table, "compare", {compare});
  add_for_all_formats(table, "div", {binary<DivOp>});
  add_for_all_formats(table, "mul", {binary<MulOp>});
  add_for_all_formats(table, "select", {select});
  add_for_all_formats(table, "sub", {binary<SubOp>});
}

}  // namespace trireme::cuda
