// The dense sum, in f32 or in 16 bits on the wire. bf16 has the range of f32. For f16 gradients are first
// divided by a bound on their sum, from the squares of all ranks' addends, so that no partial sum overflows
// and small elements keep their digits.
#include "trireme/exchange/methods.h"

namespace trireme {
namespace {

NextMove cast_sum(Addend& x, ValueId gradient, const std::function<ValueId(ValueId)>& after) {
  Builder& b = x.b;
  const ValueId sent = b.op("cast", {gradient}, {{"to", x.settings.word("wire")}});
  return NextMove::send(Move::kSum, {sent}, [&b, after](const std::vector<ValueId>& sums) {
    return NextMove::done(after(b.op("cast", {sums[0]}, {{"to", "f32"}})));
  });
}

NextMove all_reduce_begin(Addend& x) {
  const std::string& wire = x.settings.word("wire");
  if (wire == "f32")
    return NextMove::send(Move::kSum, {x.gradient()},
                          [](const std::vector<ValueId>& sums) { return NextMove::done(sums[0]); });
  if (wire == "bf16") return cast_sum(x, x.gradient(), [](ValueId sum) { return sum; });
  Builder& b = x.b;
  return NextMove::send(
      Move::kSum, {b.op("sum_squares", {x.gradient()})}, [&x, &b](const std::vector<ValueId>& sums) {
        // |Σ g| ≤ √(ranks · Σ ‖g‖²), which becomes 2^14.
        const ValueId squares = b.op(
            "affine", {sums[0]}, {{"scale", static_cast<double>(x.common.ranks) / 0x1p28}, {"shift", 1e-36}});
        const ValueId bound = b.op("sqrt", {squares});
        return cast_sum(x, b.op("div", {x.gradient(), bound}), [&b, bound](ValueId sum) {
          return b.op("mul", {sum, bound});
        });
      });
}

double all_reduce_bytes(const Shape& shape, int64_t ranks, const ExchangeSettings& settings) {
  const std::string& wire = settings.word("wire");
  const double elements = static_cast<double>(shape.elements());
  return bytes_of_sum(ranks, wire == "f32" ? 4 * elements : 2 * elements + (wire == "f16" ? 4 : 0));
}

}  // namespace

ExchangeMethod all_reduce_method() {
  return {.name = "all_reduce", .begin = all_reduce_begin, .bytes = all_reduce_bytes};
}

}  // namespace trireme
