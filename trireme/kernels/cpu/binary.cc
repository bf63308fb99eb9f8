// add, sub, mul, div and compare of a[b… s…] with b[s…]: the second operand repeats with the period of
// its own size. A 16-bit second operand that repeats is widened once, into workspace.
#include "trireme/kernels/cpu/context.h"
#include "trireme/kernels/cpu/elementwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/kernels/cpu/binary.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first
#include <hwy/highway.h>

#include "trireme/kernels/cpu/map-inl.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::cpu::HWY_NAMESPACE {
namespace {

// clang-format off
struct SubOp { VF32 operator()(F32, VF32 a, VF32 b) const { return hn::Sub(a, b); } };
struct MulOp { VF32 operator()(F32, VF32 a, VF32 b) const { return hn::Mul(a, b); } };
struct DivOp { VF32 operator()(F32, VF32 a, VF32 b) const { return hn::Div(a, b); } };
// clang-format on

// Calls body(block of a and perhaps y, b's f32 elements, position, period) for blocks of a, with position
// and period as map_repeated takes them.
template <size_t kOutputs, class Body>
void for_blocks_with_b(const KernelContext& context, const Body& body) {
  const TensorView& b = context.inputs[1];
  const auto outputs = context.outputs.first(kOutputs);
  const int64_t elements = context.inputs[0].elements(), period = b.elements();
  if (period == elements) {
    for_blocks<2, kOutputs>(pool_of(context), elements, context.inputs, outputs, [&](const auto& block) {
      body(block, block.in[1], /*position=*/0, /*period=*/elements);
    });
    return;
  }
  const float* repeated = static_cast<const float*>(b.data);
  if (b.dtype != DType::f32) {
    float* copy = reinterpret_cast<float*>(context.workspace);
    widen(b, 0, period, copy);
    repeated = copy;
  }
  for_blocks<1, kOutputs>(pool_of(context), elements, context.inputs.first(1), outputs,
                          [&](const auto& block) { body(block, repeated, block.begin, period); });
}

template <class F>
void binary(const KernelContext& context) {
  for_blocks_with_b<1>(context, [](const auto& block, const float* b, int64_t position, int64_t period) {
    map_repeated<F>(block.count, block.out[0], block.in[0], b, position, period);
  });
}

// Comparisons give 1.0 or 0.0 in f32 first, which are then cut down to bytes.
template <hn::Mask<F32> (*kCompare)(VF32, VF32)>
struct Compare {
  VF32 operator()(F32 d, VF32 a, VF32 b) const {
    return hn::IfThenElseZero(kCompare(a, b), hn::Set(d, 1.0f));
  }
};
// clang-format off
hn::Mask<F32> lt(VF32 a, VF32 b) { return hn::Lt(a, b); }
hn::Mask<F32> le(VF32 a, VF32 b) { return hn::Le(a, b); }
hn::Mask<F32> gt(VF32 a, VF32 b) { return hn::Gt(a, b); }
hn::Mask<F32> ge(VF32 a, VF32 b) { return hn::Ge(a, b); }
hn::Mask<F32> eq(VF32 a, VF32 b) { return hn::Eq(a, b); }
hn::Mask<F32> ne(VF32 a, VF32 b) { return hn::Not(hn::Eq(a, b)); }  // true for NaN, unlike Ne on x86
// clang-format on

using CompareRange = void (*)(int64_t count, float* y, const float* a, const float* b, int64_t position,
                              int64_t period);
CompareRange compare_range(std::string_view kind) {
  if (kind == "lt") return map_repeated<Compare<lt>>;
  if (kind == "le") return map_repeated<Compare<le>>;
  if (kind == "gt") return map_repeated<Compare<gt>>;
  if (kind == "ge") return map_repeated<Compare<ge>>;
  if (kind == "eq") return map_repeated<Compare<eq>>;
  TRIREME_CHECK(kind == "ne");
  return map_repeated<Compare<ne>>;
}

void compare(const KernelContext& context) {
  const CompareRange range = compare_range(context.attrs.text("kind"));
  uint8_t* y = context.out<uint8_t>(0);
  for_blocks_with_b<0>(context, [&](const auto& block, const float* b, int64_t position, int64_t period) {
    alignas(64) float results[kBlock];
    for (int64_t i = 0; i < block.count; i += kBlock) {
      const int64_t count = std::min(kBlock, block.count - i);
      range(count, results, block.in[0] + i, b, position + i, period);
      for (int64_t k = 0; k < count; ++k) y[block.begin + i + k] = results[k] != 0;
    }
  });
}

size_t repeated_operand_bytes(const KernelShape& shape) {
  const TensorType& b = shape.inputs[1];
  const bool wanted = b.dtype != DType::f32 && b.shape.elements() != shape.inputs[0].shape.elements();
  return wanted ? b.shape.elements() * sizeof(float) : 0;
}

}  // namespace

void add_binary_kernels(KernelTable& table) {
  add_for_all_formats(table, "add", {binary<AddVectors>, repeated_operand_bytes});
  add_for_all_formats(table, "compare", {compare, repeated_operand_bytes});
  add_for_all_formats(table, "div", {binary<DivOp>, repeated_operand_bytes});
  add_for_all_formats(table, "mul", {binary<MulOp>, repeated_operand_bytes});
  add_for_all_formats(table, "sub", {binary<SubOp>, repeated_operand_bytes});
}

}  // namespace trireme::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::cpu {

HWY_EXPORT(add_binary_kernels);
void add_binary(KernelTable& table) {
  HWY_DYNAMIC_DISPATCH(add_binary_kernels)(table);
}

}  // namespace trireme::cpu
#endif
