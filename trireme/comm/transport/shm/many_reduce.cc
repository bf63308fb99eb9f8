// Reductions over many inputs, vectorised; see many_reduce.h.
#include "trireme/comm/transport/shm/many_reduce.h"

#include <type_traits>

#include "trireme/base/dtype.h"
#include "trireme/base/error.h"
#include "trireme/base/with_type.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "trireme/comm/transport/shm/many_reduce.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace trireme::comm::shm::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// How elements of a format become vectors and back; D is a tag of the type that they are computed in.
template <typename T>
struct Format {
  using Wide = T;
  template <typename D>
  static HWY_INLINE auto load(D d, const T* from) {
    return hn::LoadU(d, from);
  }
  template <typename D, typename V>
  static HWY_INLINE void store(V v, D d, T* to) {
    hn::StoreU(v, d, to);
  }
};

template <>
struct Format<Bf16> {
  using Wide = float;
  template <typename D>
  static HWY_INLINE auto load(D d, const Bf16* from) {
    const hn::RebindToUnsigned<D> wide;
    const hn::Rebind<uint16_t, D> narrow;
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LoadU(narrow, &from->bits))));
  }
  // Highway's own demotion to bfloat16 cuts the low half off, so the rounding is spelled out.
  template <typename D, typename V>
  static HWY_INLINE void store(V v, D, Bf16* to) {
    const hn::RebindToUnsigned<D> wide;
    const hn::Rebind<uint16_t, D> narrow;
    const auto word = hn::BitCast(wide, v);
    const auto high = hn::ShiftRight<16>(word);
    const auto odd = hn::And(high, hn::Set(wide, 1));
    const auto rounded = hn::ShiftRight<16>(hn::Add(hn::Add(word, hn::Set(wide, 0x7fff)), odd));
    const auto nan = hn::RebindMask(wide, hn::IsNaN(v));
    const auto bits = hn::IfThenElse(nan, hn::Or(high, hn::Set(wide, 0x40)), rounded);
    hn::StoreU(hn::TruncateTo(narrow, bits), narrow, &to->bits);
  }
};

template <>
struct Format<F16> {
  using Wide = float;
#if HWY_TARGET == HWY_SSE4 || HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
  // Without F16C Highway's conversion does not round to nearest even; such machines are rare enough to be
  // slow here.
  template <typename D>
  static HWY_INLINE auto load(D d, const F16* from) {
    HWY_ALIGN float wide[hn::MaxLanes(D())];
    for (size_t i = 0; i < hn::Lanes(d); ++i) wide[i] = static_cast<float>(from[i]);
    return hn::Load(d, wide);
  }
  template <typename D, typename V>
  static HWY_INLINE void store(V v, D d, F16* to) {
    HWY_ALIGN float wide[hn::MaxLanes(D())];
    hn::Store(v, d, wide);
    for (size_t i = 0; i < hn::Lanes(d); ++i) to[i] = F16(wide[i]);
  }
#else
  template <typename D>
  static HWY_INLINE auto load(D d, const F16* from) {
    const hn::Rebind<uint16_t, D> narrow;
    const hn::Rebind<hwy::float16_t, D> half;
    return hn::PromoteTo(d, hn::BitCast(half, hn::LoadU(narrow, &from->bits)));
  }
  template <typename D, typename V>
  static HWY_INLINE void store(V v, D, F16* to) {
    const hn::Rebind<uint16_t, D> narrow;
    const hn::Rebind<hwy::float16_t, D> half;
    hn::StoreU(hn::BitCast(narrow, hn::DemoteTo(half, v)), narrow, &to->bits);
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

// Bytes [begin, end) by vectors of D, as far as whole ones go; returns where it stopped.
struct Many {
  template <typename T, typename Op, Finish kFinish, typename D>
  static HWY_INLINE size_t reduce(D d, std::span<const std::byte* const> inputs,
                                  std::span<std::byte* const> outputs, size_t begin, size_t end) {
    using Wide = typename Format<T>::Wide;
    const size_t step = hn::Lanes(d) * sizeof(T);
    size_t at = begin;
    for (; at + step <= end; at += step) {
      auto value = Format<T>::load(d, reinterpret_cast<const T*>(inputs[0] + at));
      for (size_t i = 1; i < inputs.size(); ++i) {
        value = Op::apply(d, value, Format<T>::load(d, reinterpret_cast<const T*>(inputs[i] + at)));
      }
      if constexpr (kFinish == Finish::average) {
        value = hn::Mul(value, hn::Set(d, Wide(1) / static_cast<Wide>(inputs.size())));
      }
      for (std::byte* output : outputs) Format<T>::store(value, d, reinterpret_cast<T*>(output + at));
    }
    return at;
  }
};

// The same for two inputs and one or two outputs, with all places in registers: a store of bytes may change
// anything, the spans too, which would be read again after every one.
template <int kOutputs>
struct Two {
  template <typename T, typename Op, Finish kFinish, typename D>
  static HWY_INLINE size_t reduce(D d, std::span<const std::byte* const> inputs,
                                  std::span<std::byte* const> outputs, size_t begin, size_t end) {
    using Wide = typename Format<T>::Wide;
    const std::byte* const left = inputs[0];
    const std::byte* const right = inputs[1];
    std::byte* const output = outputs[0];
    std::byte* const copy = outputs[kOutputs - 1];
    const size_t step = hn::Lanes(d) * sizeof(T);
    size_t at = begin;
    for (; at + step <= end; at += step) {
      auto value = Op::apply(d, Format<T>::load(d, reinterpret_cast<const T*>(left + at)),
                             Format<T>::load(d, reinterpret_cast<const T*>(right + at)));
      if constexpr (kFinish == Finish::average) value = hn::Mul(value, hn::Set(d, Wide(1) / Wide(2)));
      Format<T>::store(value, d, reinterpret_cast<T*>(output + at));
      if constexpr (kOutputs == 2) Format<T>::store(value, d, reinterpret_cast<T*>(copy + at));
    }
    return at;
  }
};

template <typename Way, typename T, typename Op, Finish kFinish>
HWY_INLINE void reduce_all(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
                           size_t bytes) {
  using Wide = typename Format<T>::Wide;
  const hn::ScalableTag<Wide> whole;
  const hn::CappedTag<Wide, 1> one;
  const size_t rest = Way::template reduce<T, Op, kFinish>(whole, inputs, outputs, 0, bytes);
  Way::template reduce<T, Op, kFinish>(one, inputs, outputs, rest, bytes);
}

template <typename T, typename Op, Finish kFinish>
void many_reduce(std::span<const std::byte* const> inputs, std::span<std::byte* const> outputs,
                 size_t bytes) {
  if (inputs.size() == 2 && outputs.size() == 1) {
    reduce_all<Two<1>, T, Op, kFinish>(inputs, outputs, bytes);
  } else if (inputs.size() == 2 && outputs.size() == 2) {
    reduce_all<Two<2>, T, Op, kFinish>(inputs, outputs, bytes);
  } else {
    reduce_all<Many, T, Op, kFinish>(inputs, outputs, bytes);
  }
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
  return with_type(dtype, [op](auto zero) { return pick_op<decltype(zero)>(op); });
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
