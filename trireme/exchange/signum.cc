// Signum: each rank votes with the signs of its momentum, each element's owner counts, and the step goes by
// the majority, 1 in every element. Where votes are even, that of rank 0 counts: any fixed sign would be a
// drift.
#include "trireme/exchange/methods.h"

namespace trireme {
namespace {

// Of the signs of all elements, in as many equal parts as there are ranks.
int64_t bytes_of_signs(int64_t elements, int64_t ranks) {
  return (elements + 8 * ranks - 1) / (8 * ranks) * ranks;
}

NextMove signum_begin(Addend& x) {
  Builder& b = x.b;
  const double momentum = x.settings.real("momentum");
  const ValueId before = x.keep("momentum", x.shape());
  const ValueId scale = b.op(
      "div", {b.op("affine", {x.common.unit}, {{"scale", 0.0}, {"shift", 1 - momentum}}), x.common.unit});
  const ValueId now =
      b.op("add_scaled", {b.op("affine", {before}, {{"scale", momentum}}), x.gradient(), scale});
  x.becomes(before, now);
  const int64_t bytes = bytes_of_signs(x.elements(), x.common.ranks);
  const ValueId votes = b.op("sign_pack", {x.flat(now)}, {{"bytes", bytes}});
  return NextMove::send(
      Move::kDeal, {x.reshaped(votes, {x.common.ranks, bytes / x.common.ranks})},
      [&x, &b](const std::vector<ValueId>& dealt) {
        return NextMove::send(
            Move::kGather, {b.op("sign_vote", dealt)}, [&x, &b](const std::vector<ValueId>& all) {
              return NextMove::done(
                  x.in_shape(b.op("sign_unpack", {x.flat(all[0]), x.common.unit}, {{"size", x.elements()}})));
            });
      });
}

double signum_bytes(const Shape& shape, int64_t ranks, const ExchangeSettings&) {
  return 2 * bytes_of_deal(ranks, static_cast<double>(bytes_of_signs(shape.elements(), ranks)));
}

}  // namespace

ExchangeMethod signum_method() {
  return {.name = "signum",
          .begin = signum_begin,
          .bytes = signum_bytes,
          .direction = ExchangeMethod::Direction::kOwnSteps};
}

}  // namespace trireme
