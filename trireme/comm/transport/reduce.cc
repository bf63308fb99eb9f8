// Element-wise reductions with vectors, built for several instruction sets; see reduce.h.
// What is left at the end of a range goes through the same vector code in a buffer of its own, so that no bit
// of an element, not even of a NaN, depends on where it lies.
#include "trireme/comm/transport/reduce.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/comm/transport/reduce.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first
#include <hwy/highway.h>

#include <cstring>
#include <type_traits>

#include "trireme/base/error.h"
#include "trireme/base/with_type.h"

HWY_BEFORE_NAMESPACE();
namespace trireme::comm::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Without F16C Highway's software conversion does not round to nearest even.
#if (HWY_ARCH_X86 && HWY_TARGET > HWY_AVX2) || HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
constexpr bool kConvertsF16 = false;
#else
constexpr bool kConvertsF16 = true;
#endif

// How a format is loaded into vectors in which it is computed, and stored again.
template <typename T>
struct Format {
  using D = hn::ScalableTag<T>;
  static constexpr size_t kMaxLanes = hn::MaxLanes(D());
  static HWY_INLINE hn::Vec<D> load(const T* p) { return hn::LoadU(D(), p); }
  static HWY_INLINE void store(hn::Vec<D> v, T* p) { hn::StoreU(v, D(), p); }
};

using F32 = hn::ScalableTag<float>;
using U32 = hn::RebindToUnsigned<F32>;
using U16 = hn::Rebind<uint16_t, F32>;
using Half = hn::Rebind<hwy::float16_t, F32>;

// Not &p->bits: a buffer need not be aligned to its elements.
template <typename T>
HWY_INLINE auto* bits_at(T* p) {
  using Bits = std::conditional_t<std::is_const_v<T>, const uint16_t, uint16_t>;
  return reinterpret_cast<Bits*>(p);
}

template <>
struct Format<Bf16> {
  using D = F32;
  static constexpr size_t kMaxLanes = hn::MaxLanes(D());
  static HWY_INLINE hn::Vec<D> load(const Bf16* p) {
    return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(U32(), hn::LoadU(U16(), bits_at(p)))));
  }
  // Highway's own demotion cuts the low half off, so the rounding is spelled out.
  static HWY_INLINE void store(hn::Vec<D> value, Bf16* p) {
    const U32 du;
    const auto word = hn::BitCast(du, value);
    const auto high = hn::ShiftRight<16>(word);
    const auto odd = hn::And(high, hn::Set(du, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(word, hn::Set(du, 0x7fff)), odd));
    const auto nan = hn::RebindMask(du, hn::IsNaN(value));
    const auto bits = hn::IfThenElse(nan, hn::Or(high, hn::Set(du, 0x40)), rounded);
    hn::StoreU(hn::TruncateTo(U16(), bits), U16(), bits_at(p));
  }
};

template <>
struct Format<F16> {
  using D = F32;
  static constexpr size_t kMaxLanes = hn::MaxLanes(D());
  static HWY_INLINE hn::Vec<D> load(const F16* p) {
    if constexpr (kConvertsF16) {
      return hn::PromoteTo(F32(), hn::BitCast(Half(), hn::LoadU(U16(), bits_at(p))));
    } else {
      HWY_ALIGN float wide[kMaxLanes];
      F16 narrow[kMaxLanes];
      std::memcpy(narrow, p, sizeof narrow);
      for (size_t i = 0; i < kMaxLanes; ++i) wide[i] = static_cast<float>(narrow[i]);
      return hn::Load(F32(), wide);
    }
  }
  static HWY_INLINE void store(hn::Vec<D> value, F16* p) {
    if constexpr (kConvertsF16) {
      // F16 has one quiet NaN of each sign; the instruction would keep more of it.
      const U32 du;
      const auto sign = hn::And(hn::ShiftRight<16>(hn::BitCast(du, value)), hn::Set(du, 0x8000));
      const auto nan_bits = hn::Or(sign, hn::Set(du, 0x7e00));
      const auto half = hn::PromoteTo(du, hn::BitCast(U16(), hn::DemoteTo(Half(), value)));
      const auto bits = hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), nan_bits, half);
      hn::StoreU(hn::TruncateTo(U16(), bits), U16(), bits_at(p));
    } else {
      HWY_ALIGN float wide[kMaxLanes];
      F16 narrow[kMaxLanes];
      hn::Store(value, F32(), wide);
      for (size_t i = 0; i < kMaxLanes; ++i) narrow[i] = F16(wide[i]);
      std::memcpy(static_cast<void*>(p), narrow, sizeof narrow);
    }
  }
};

// Element by element where Highway has no such multiplication.
template <typename D>
HWY_INLINE hn::Vec<D> multiply_each(D d, hn::Vec<D> a, hn::Vec<D> b) {
  using T = hn::TFromD<D>;
  using U = std::make_unsigned_t<T>;
  HWY_ALIGN T left[hn::MaxLanes(d)], right[hn::MaxLanes(d)];
  hn::Store(a, d, left);
  hn::Store(b, d, right);
  for (size_t i = 0; i < hn::Lanes(d); ++i) {
    left[i] = static_cast<T>(static_cast<U>(static_cast<U>(left[i]) * static_cast<U>(right[i])));
  }
  return hn::Load(d, left);
}

// Integers wrap around.
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
    if constexpr (std::is_floating_point_v<T> || sizeof(T) == 4) {
      return hn::Mul(a, b);
    } else {
      return multiply_each(d, a, b);
    }
  }
};
// A NaN on either side is the result, whichever side it is on: a maximum that lost one would hide a broken
// rank.
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

template <Finish kFinish, typename D, typename V>
HWY_INLINE V finished(D d, V value, size_t inputs) {
  if constexpr (kFinish == Finish::none) {
    return value;
  } else {
    using T = hn::TFromD<D>;
    return hn::Mul(value, hn::Set(d, T(1) / static_cast<T>(inputs)));
  }
}

// Two inputs and one or two outputs, with all places in registers: a store of bytes may change anything,
// spans too, which would be read again after every one. `copy` is another name of `to` where there is one
// output.
template <typename T, typename Op, Finish kFinish, int kOutputs>
HWY_INLINE void reduce_two(const T* a, const T* b, T* to, T* copy, size_t count) {
  using F = Format<T>;
  const typename F::D d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  // Two at a time hide the latency of narrow formats; more gain nothing, memory is the limit.
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    const auto first = finished<kFinish>(d, Op::apply(d, F::load(a + i), F::load(b + i)), 2);
    const auto second = finished<kFinish>(d, Op::apply(d, F::load(a + i + lanes), F::load(b + i + lanes)), 2);
    F::store(first, to + i);
    F::store(second, to + i + lanes);
    if constexpr (kOutputs == 2) {
      F::store(first, copy + i);
      F::store(second, copy + i + lanes);
    }
  }
  while (i < count) {
    const size_t size = HWY_MIN(lanes, count - i) * sizeof(T);
    T left[F::kMaxLanes] = {}, right[F::kMaxLanes] = {};
    std::memcpy(left, a + i, size);
    std::memcpy(right, b + i, size);
    F::store(finished<kFinish>(d, Op::apply(d, F::load(left), F::load(right)), 2), left);
    std::memcpy(to + i, left, size);
    if constexpr (kOutputs == 2) std::memcpy(copy + i, left, size);
    i += lanes;
  }
}

template <typename T, typename Op>
void combine(std::byte* into, const std::byte* from, size_t bytes) {
  T* const to = reinterpret_cast<T*>(into);
  reduce_two<T, Op, Finish::none, 1>(to, reinterpret_cast<const T*>(from), to, to, bytes / sizeof(T));
}

template <typename T, typename Op, Finish kFinish>
void many_reduce(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
                 size_t bytes) {
  using F = Format<T>;
  if (inputs.size() == 2 && outputs.size() <= 2) {
    const T* const a = reinterpret_cast<const T*>(inputs[0]);
    const T* const b = reinterpret_cast<const T*>(inputs[1]);
    T* const to = reinterpret_cast<T*>(outputs.front());
    T* const copy = reinterpret_cast<T*>(outputs.back());
    if (to == copy) return reduce_two<T, Op, kFinish, 1>(a, b, to, copy, bytes / sizeof(T));
    return reduce_two<T, Op, kFinish, 2>(a, b, to, copy, bytes / sizeof(T));
  }
  const typename F::D d;
  const size_t step = hn::Lanes(d) * sizeof(T);
  size_t at = 0;
  for (; at + step <= bytes; at += step) {
    auto value = F::load(reinterpret_cast<const T*>(inputs[0] + at));
    for (size_t i = 1; i < inputs.size(); ++i)
      value = Op::apply(d, value, F::load(reinterpret_cast<const T*>(inputs[i] + at)));
    value = finished<kFinish>(d, value, inputs.size());
    for (std::byte* output : outputs) F::store(value, reinterpret_cast<T*>(output + at));
  }
  if (at == bytes) return;
  T tail[F::kMaxLanes] = {};
  std::memcpy(tail, inputs[0] + at, bytes - at);
  auto value = F::load(tail);
  for (size_t i = 1; i < inputs.size(); ++i) {
    std::memcpy(tail, inputs[i] + at, bytes - at);
    value = Op::apply(d, value, F::load(tail));
  }
  F::store(finished<kFinish>(d, value, inputs.size()), tail);
  for (std::byte* output : outputs) std::memcpy(output + at, tail, bytes - at);
}

template <typename T>
void scale_as(std::byte* data, size_t bytes, int ranks) {
  using F = Format<T>;
  const typename F::D d;
  using Wide = hn::TFromD<typename F::D>;
  const auto factor = hn::Set(d, Wide(1) / static_cast<Wide>(ranks));
  const size_t lanes = hn::Lanes(d), count = bytes / sizeof(T);
  T* const values = reinterpret_cast<T*>(data);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) F::store(hn::Mul(F::load(values + i), factor), values + i);
  if (i == count) return;
  T tail[F::kMaxLanes] = {};
  std::memcpy(tail, values + i, (count - i) * sizeof(T));
  F::store(hn::Mul(F::load(tail), factor), tail);
  std::memcpy(values + i, tail, (count - i) * sizeof(T));
}

// Calls body() with a value of the op's type. An average adds: who divides, and when, is the caller's.
template <typename Body>
auto with_op(ReduceOp op, const Body& body) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
      return body(Sum());
    case ReduceOp::max:
      return body(Max());
    case ReduceOp::min:
      return body(Min());
    case ReduceOp::product:
      return body(Product());
  }
  throw_error("reduction {} is unknown", static_cast<int>(op));
}

template <typename T>
ManyReduce many_of(ReduceOp op) {
  if constexpr (std::is_floating_point_v<hn::TFromD<typename Format<T>::D>>) {
    if (op == ReduceOp::average) return many_reduce<T, Sum, Finish::average>;
  }
  return with_op(op, [](auto one) -> ManyReduce { return many_reduce<T, decltype(one), Finish::none>; });
}

}  // namespace

Combine one_function(DType dtype, ReduceOp op) {
  return with_type(dtype, [op](auto zero) {
    return with_op(op, [](auto one) -> Combine { return combine<decltype(zero), decltype(one)>; });
  });
}

ManyReduce many_function(DType dtype, ReduceOp op) {
  return with_type(dtype, [op](auto zero) { return many_of<decltype(zero)>(op); });
}

void scale_floats(std::byte* data, DType dtype, size_t bytes, int ranks) {
  switch (dtype) {
    case DType::f64:
      return scale_as<double>(data, bytes, ranks);
    case DType::f32:
      return scale_as<float>(data, bytes, ranks);
    case DType::f16:
      return scale_as<F16>(data, bytes, ranks);
    case DType::bf16:
      return scale_as<Bf16>(data, bytes, ranks);
    default:
      TRIREME_CHECK(is_float(dtype));
  }
}

}  // namespace trireme::comm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace trireme::comm {

HWY_EXPORT(one_function);
HWY_EXPORT(many_function);
HWY_EXPORT(scale_floats);

Combine combine_function(DType dtype, ReduceOp op) {
  return HWY_DYNAMIC_DISPATCH(one_function)(dtype, op);
}

ManyReduce many_reduce_function(DType dtype, ReduceOp op) {
  check_reducible(dtype, op);
  return HWY_DYNAMIC_DISPATCH(many_function)(dtype, op);
}

void scale(std::byte* data, DType dtype, size_t bytes, int ranks) {
  check_reducible(dtype, ReduceOp::average);
  HWY_DYNAMIC_DISPATCH(scale_floats)(data, dtype, bytes, ranks);
}

void check_reducible(DType dtype, ReduceOp op) {
  if (op == ReduceOp::average && !is_float(dtype)) {
    throw_error("average of {}: integers have no exact average; use sum and divide, or a float format",
                name(dtype));
  }
}

}  // namespace trireme::comm
#endif
