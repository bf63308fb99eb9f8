// TernGrad: of every element nothing, or ± the largest of all ranks, by chance and so that the mean is right.
// Elements are clipped to some standard deviations first, which makes that largest one smaller and is a small
// bias.
#include "trireme/exchange/methods.h"

namespace trireme {
namespace {

// Its square: of the largest element, or of so many deviations if that is less.
ValueId squared_limit(Addend& x) {
  Builder& b = x.b;
  const ValueId flat = x.flat(x.gradient());
  const ValueId largest = b.op("max", {b.op("mul", {flat, flat})}, {{"dims", std::vector<int64_t>{0}}});
  const double clip = x.settings.real("clip");
  if (clip == 0) return largest;
  const ValueId bound = b.op("affine", {b.op("sum_squares", {flat})},
                             {{"scale", clip * clip / static_cast<double>(x.elements())}});
  return b.op("select", {b.op("compare", {largest, bound}, {{"kind", "lt"}}), largest, bound});
}

NextMove terngrad_begin(Addend& x) {
  Builder& b = x.b;
  return NextMove::send(
      Move::kMax, {b.op("sqrt", {squared_limit(x)})}, [&x, &b](const std::vector<ValueId>& limit) {
        const ValueId codes = b.op("ternary_pack", {x.flat(x.gradient()), limit[0], x.common.step},
                                   {{"seed", x.settings.whole("seed")}, {"stream", x.stream()}});
        return NextMove::send(Move::kGather, {codes}, [&x, &b, limit](const std::vector<ValueId>& of_ranks) {
          return NextMove::done(
              x.in_shape(b.op("ternary_unpack", {of_ranks[0], limit[0]}, {{"size", x.elements()}})));
        });
      });
}

double terngrad_bytes(const Shape& shape, int64_t ranks, const ExchangeSettings&) {
  return bytes_of_sum(ranks, 4) + bytes_of_gather(ranks, static_cast<double>((shape.elements() + 3) / 4));
}

}  // namespace

ExchangeMethod terngrad_method() {
  return {.name = "terngrad", .begin = terngrad_begin, .bytes = terngrad_bytes};
}

}  // namespace trireme
