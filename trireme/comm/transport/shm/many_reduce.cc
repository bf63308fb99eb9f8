// Reductions over many inputs, vectorised; see many_reduce.h.
#include "trireme/comm/transport/shm/many_reduce.h"

#include <array>
#include <cstring>
#include <type_traits>

#include "trireme/base/dtype.h"
#include "trireme/base/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/comm/transport/shm/many_reduce.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace trireme::comm::shm::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// How elements of a format become vectors and back. A vector has as many lanes as the type it is computed in.
template <typename T>
struct Format {
  using Wide = T;
  using D = hn::ScalableTag<T>;
  static HWY_INLINE auto load(D d, const T* from) { return hn::LoadU(d, from); }
  template <typename V>
  static HWY_INLINE void store(V v, D d, T* to) {
    hn::StoreU(v, d, to);
  }
};

template <>
struct Format<Bf16> {
  using Wide = float;
  using D = hn::ScalableTag<float>;
  using U32 = hn::RebindToUnsigned<D>;
  using U16 = hn::Rebind<uint16_t, D>;
  static HWY_INLINE auto load(D d, const Bf16* from) {
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(U32(), hn::LoadU(U16(), &from->bits))));
  }
  // Highway's own demotion to bfloat16 cuts the low half off, so the rounding is spelled out.
  template <typename V>
  static HWY_INLINE void store(V v, D, Bf16* to) {
    const U32 du;
    const auto word = hn::BitCast(du, v);
    const auto high = hn::ShiftRight<16>(word);
    const auto odd = hn::And(high, hn::Set(du, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(word, hn::Set(du, 0x7fff)), odd));
    const auto nan = hn::RebindMask(du, hn::IsNaN(v));
    const auto bits = hn::IfThenElse(nan, hn::Or(high, hn::Set(du, 0x40)), rounded);
    hn::StoreU(hn::TruncateTo(U16(), bits), U16(), &to->bits);
  }
};

template <>
struct Format<F16> {
  using Wide = float;
  using D = hn::ScalableTag<float>;
#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  // Without F16C Highway's conversion does not round to nearest even; such machines are rare enough to be
  // slow here.
  static HWY_INLINE auto load(D d, const F16* from) {
    HWY_ALIGN float wide[hn::MaxLanes(D())];
    for (size_t i = 0; i < hn::Lanes(d); ++i) wide[i] = static_cast<float>(from[i]);
    return hn::Load(d, wide);
  }
  template <typename V>
  static HWY_INLINE void store(V v, D d, F16* to) {
    HWY_ALIGN float wide[hn::MaxLanes(D())];
    hn::Store(v, d, wide);
    for (size_t i = 0; i < hn::Lanes(d); ++i) to[i] = F16(wide[i]);
  }
#else
  using U16 = hn::Rebind<uint16_t, D>;
  using Half = hn::Rebind<hwy::float16_t, D>;
  static HWY_INLINE auto load(D d, const F16* from) {
    return hn::PromoteTo(d, hn::BitCast(Half(), hn::LoadU(U16(), &from->bits)));
  }
  template <typename V>
  static HWY_INLINE void store(V v, D, F16* to) {
    hn::StoreU(hn::BitCast(U16(), hn::DemoteTo(Half(), v)), U16(), &to->bits);
  }
#endif
};

struct Sum {
  template <typename D, typename V>
  static HWY_INLINE V apply(D, V a, V b) {
    return hn::Add(a, b);
  }
};
struct Product {
  template <typename D, typename V>
  static HWY_INLINE V apply(D d, V a, V b) {
    using T = hn::TFromD<D>;
    if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, int32_t>) {
      return hn::Mul(a, b);
    } else {  // not in every instruction set, and not worth one
      using U = std::make_unsigned_t<T>;
      HWY_ALIGN T left[hn::MaxLanes(D())];
      HWY_ALIGN T right[hn::MaxLanes(D())];
      hn::Store(a, d, left);
      hn::Store(b, d, right);
      for (size_t i = 0; i < hn::Lanes(d); ++i) left[i] = static_cast<T>(static_cast<U>(left[i]) * right[i]);
      return hn::Load(d, left);
    }
  }
};
// A NaN on either side is the result, as in reduce.h.
struct Max {
  template <typename D, typename V>
  static HWY_INLINE V apply(D, V a, V b) {
    if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
      return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
    } else {
      return hn::Max(a, b);
    }
  }
};
struct Min {
  template <typename D, typename V>
  static HWY_INLINE V apply(D, V a, V b) {
    if constexpr (std::is_floating_point_v<hn::TFromD<D>>) {
      return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
    } else {
      return hn::Min(a, b);
    }
  }
};

enum class Finish { none, average };

// One vector from each input at byte `at`, reduced. kInputs 0: as many as there are.
template <typename T, typename Op, Finish kFinish, int kInputs>
HWY_INLINE auto reduced(std::span<const std::byte* const> inputs, size_t at) {
  const typename Format<T>::D d;
  const auto load = [&](size_t i) { return Format<T>::load(d, reinterpret_cast<const T*>(inputs[i] + at)); };
  auto value = load(0);
  const size_t count = kInputs != 0 ? kInputs : inputs.size();
  for (size_t i = 1; i < count; ++i) value = Op::apply(d, value, load(i));
  if constexpr (kFinish == Finish::average) {
    using Wide = typename Format<T>::Wide;
    value = hn::Mul(value, hn::Set(d, Wide(1) / static_cast<Wide>(inputs.size())));
  }
  return value;
}

template <typename T, typename Op, Finish kFinish, int kInputs>
void reduce_vectors(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
                    size_t begin, size_t end) {
  const typename Format<T>::D d;
  const size_t step = hn::Lanes(d) * sizeof(T);
  for (size_t at = begin; at < end; at += step) {
    const auto value = reduced<T, Op, kFinish, kInputs>(inputs, at);
    for (std::byte* output : outputs) Format<T>::store(value, d, reinterpret_cast<T*>(output + at));
  }
}

// The last elements, fewer than a vector has, by way of a whole vector of each input.
template <typename T, typename Op, Finish kFinish>
void reduce_tail(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs, size_t at,
                 size_t bytes) {
  const typename Format<T>::D d;
  constexpr size_t kVector = hn::MaxLanes(typename Format<T>::D()) * sizeof(T);
  HWY_ALIGN std::byte padded[kVector] = {};
  const auto load = [&](size_t i) {
    std::memcpy(padded, inputs[i] + at, bytes);
    return Format<T>::load(d, reinterpret_cast<const T*>(padded));
  };
  auto value = load(0);
  for (size_t i = 1; i < inputs.size(); ++i) value = Op::apply(d, value, load(i));
  if constexpr (kFinish == Finish::average) {
    using Wide = typename Format<T>::Wide;
    value = hn::Mul(value, hn::Set(d, Wide(1) / static_cast<Wide>(inputs.size())));
  }
  Format<T>::store(value, d, reinterpret_cast<T*>(padded));
  for (std::byte* output : outputs) std::memcpy(output + at, padded, bytes);
}

template <typename T, typename Op, Finish kFinish>
void many_reduce(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
                 size_t bytes) {
  const size_t vector = hn::Lanes(typename Format<T>::D()) * sizeof(T);
  const size_t whole = bytes / vector * vector;
  if (inputs.size() == 2) {
    reduce_vectors<T, Op, kFinish, 2>(inputs, outputs, 0, whole);
  } else {
    reduce_vectors<T, Op, kFinish, 0>(inputs, outputs, 0, whole);
  }
  if (whole < bytes) reduce_tail<T, Op, kFinish>(inputs, outputs, whole, bytes - whole);
}

template <typename T>
ManyReduce pick_op(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return many_reduce<T, Sum, Finish::none>;
    case ReduceOp::average:
      if constexpr (std::is_floating_point_v<typename Format<T>::Wide>) {
        return many_reduce<T, Sum, Finish::average>;
      }
      break;
    case ReduceOp::max:
      return many_reduce<T, Max, Finish::none>;
    case ReduceOp::min:
      return many_reduce<T, Min, Finish::none>;
    case ReduceOp::product:
      return many_reduce<T, Product, Finish::none>;
  }
  throw_error("{} of {} is not offered", name(op), name(dtype_of<T>));
}

}  // namespace

ManyReduce pick(DType dtype, ReduceOp op) {
  switch (dtype) {
    case DType::f64:
      return pick_op<double>(op);
    case DType::f32:
      return pick_op<float>(op);
    case DType::f16:
      return pick_op<F16>(op);
    case DType::bf16:
      return pick_op<Bf16>(op);
    case DType::i64:
      return pick_op<int64_t>(op);
    case DType::i32:
      return pick_op<int32_t>(op);
    case DType::u8:
      return pick_op<uint8_t>(op);
  }
  throw_error("number format {} is unknown", static_cast<int>(dtype));
}

}  // namespace trireme::comm::shm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::comm::shm {

HWY_EXPORT(pick);

ManyReduce many_reduce_function(DType dtype, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(pick)(dtype, op);
}

}  // namespace trireme::comm::shm
#endif
