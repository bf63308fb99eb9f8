// Element-wise ops of two inputs, of which the second may repeat; compare and select.
#include "trireme/kernels/cuda/formulas.cuh"
#include "trireme/kernels/cuda/many.cuh"
#include "trireme/kernels/cuda/map.cuh"

namespace trireme::cuda {
namespace {

// clang-format off
struct AddOp { __device__ float operator()(float a, float b) const { return formula::add(a, b); } };
struct SubOp { __device__ float operator()(float a, float b) const { return formula::sub(a, b); } };
struct MulOp { __device__ float operator()(float a, float b) const { return formula::mul(a, b); } };
struct DivOp { __device__ float operator()(float a, float b) const { return formula::div(a, b); } };
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

// A step of a model with running statistics is hundreds of these on a few numbers each.
template <typename T>
struct Compare {
  static constexpr int kThreads = kMapThreads;
  const T *a, *b;
  int64_t period, count;
  uint8_t* y;
  Kind kind;

  static Compare of(const KernelContext& context) {
    return {in<T>(context, 0),          in<T>(context, 1),
            context.inputs[1].elements(), context.outputs[0].elements(),
            out<uint8_t>(context, 0),   kind_of(context.attrs.text("kind"))};
  }
  int64_t blocks() const { return ceil_div(count, kThreads); }
  __device__ void run(int64_t block) const {
    const int64_t i = block * kThreads + threadIdx.x;
    if (i < count) y[i] = holds(kind, widen(a[i]), widen(b[i % period]));
  }
};

template <typename T>
struct Select {
  static constexpr int kThreads = kMapThreads;
  const uint8_t* c;
  const T *a, *b;
  T* y;
  int64_t count;

  static Select of(const KernelContext& context) {
    return {in<uint8_t>(context, 0), in<T>(context, 1), in<T>(context, 2), out<T>(context, 0),
            context.outputs[0].elements()};
  }
  int64_t blocks() const { return ceil_div(count, kThreads); }
  __device__ void run(int64_t block) const {
    const int64_t i = block * kThreads + threadIdx.x;
    if (i < count) y[i] = c[i] ? a[i] : b[i];
  }
};

template <typename Item>
Kernel kernel_of() {
  return {.run = run_item<Item, Item::of>, .run_many = run_items<Item, Item::of>};
}
template <template <typename> class Item>
void add_items(KernelTable& table, std::string_view op) {
  table.add(op, DType::f32, kernel_of<Item<float>>());
  table.add(op, DType::bf16, kernel_of<Item<bf16>>());
  table.add(op, DType::f16, kernel_of<Item<f16>>());
}

}  // namespace

void add_binary(KernelTable& table) {
  add_for_all_formats(table, "add", {binary<AddOp>});
  add_items<Compare>(table, "compare");
  add_for_all_formats(table, "div", {binary<DivOp>});
  add_for_all_formats(table, "mul", {binary<MulOp>});
  add_items<Select>(table, "select");
  add_for_all_formats(table, "sub", {binary<SubOp>});
}

}  // namespace trireme::cuda
