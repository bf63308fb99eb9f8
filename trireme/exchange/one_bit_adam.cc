// 1-bit Adam: dense Adam for some steps; then its variance stays as it is, and of the momentum of all ranks
// one bit an element is sent, with error feedback. Vectors stay dense, and have Adam all the same. What comes
// out is a step, so that the optimizer is plain descent (with weight decay, as AdamW has it).
#include <cmath>

#include "trireme/exchange/methods.h"

namespace trireme {
namespace {

// The moments of Adam, which all ranks have alike.
struct Moments {
  explicit Moments(Addend& x)
      : first(x.keep("momentum", x.shape(), Addend::Kept::Of::kAll)),
        second(x.keep("variance", x.shape(), Addend::Kept::Of::kAll)) {}
  ValueId first, second;
};

// 1 − β^t of this step.
ValueId missing_share(Addend& x, double beta) {
  const ValueId power = x.b.op("exp", {x.b.op("affine", {x.common.step}, {{"scale", std::log(beta)}})});
  return x.b.op("affine", {power}, {{"scale", -1.0}, {"shift", 1.0}});
}

NextMove warm_up(Addend& x) {
  return NextMove::send(Move::kSum, {x.gradient()}, [&x](const std::vector<ValueId>& sums) {
    Builder& b = x.b;
    const Moments before(x);
    const ValueId one = b.op("affine", {x.common.unit}, {{"scale", 0.0}, {"shift", 1.0}});
    // Without decay the weight that it takes first does not matter.
    const std::vector<ValueId> after = b.node("lamb_direction",
                                              {before.first, sums[0], before.first, before.second,
                                               b.op("div", {one, x.common.unit}), x.common.step},
                                              {{"beta1", x.settings.real("beta1")},
                                               {"beta2", x.settings.real("beta2")},
                                               {"eps", x.settings.real("eps")},
                                               {"weight_decay", 0.0}});
    x.becomes(before.first, after[1]);
    x.becomes(before.second, after[2]);
    return NextMove::done(b.op("mul", {after[0], x.common.unit}));
  });
}

// From the new momentum, in units of a gradient. An element whose gradient was 0 in all of the warm-up has no
// variance to be divided by, and what is sent of it may not be 0: it stays where it is.
NextMove step_along(Addend& x, const Moments& moments, ValueId momentum) {
  Builder& b = x.b;
  x.becomes(moments.first, b.op("div", {momentum, x.common.unit}));
  x.becomes(moments.second, moments.second);
  const double share = 1 - std::pow(x.settings.real("beta2"), x.settings.real("warmup"));
  const ValueId deviation = b.op("sqrt", {b.op("affine", {moments.second}, {{"scale", 1 / share}})});
  const ValueId divisor = b.op("affine", {deviation}, {{"scale", 1.0}, {"shift", x.settings.real("eps")}});
  const ValueId step =
      b.op("div", {b.op("div", {momentum, missing_share(x, x.settings.real("beta1"))}), divisor});
  const ValueId zero = b.op("affine", {moments.second}, {{"scale", 0.0}});
  const ValueId never = b.op("compare", {moments.second, zero}, {{"kind", "le"}});
  return NextMove::done(b.op("select", {never, zero, step}));
}

NextMove one_bit_adam_begin(Addend& x) {
  if (x.common.until != 0 && x.common.until <= x.settings.whole("warmup")) return warm_up(x);
  Builder& b = x.b;
  const double beta1 = x.settings.real("beta1");
  const Moments moments(x);
  const ValueId fresh = b.op("affine", {x.gradient()}, {{"scale", 1 - beta1}});
  // All ranks have the old momentum: each adds its share of it.
  const auto with_old = [&](ValueId value, double share) {
    const ValueId old = b.op("affine", {moments.first}, {{"scale", beta1 * share}});
    return b.op("add_scaled", {value, old, x.common.unit});
  };
  if (x.shape().rank() < 2)
    return NextMove::send(
        Move::kSum, {with_old(fresh, 1.0 / static_cast<double>(x.common.ranks))},
        [&x, moments](const std::vector<ValueId>& sums) { return step_along(x, moments, sums[0]); });
  return one_bit_sum(x, with_old(fresh, 1.0 / static_cast<double>(x.common.ranks)),
                     [&x, moments](ValueId sum) { return step_along(x, moments, sum); });
}

double one_bit_adam_bytes(const Shape& shape, int64_t ranks, const ExchangeSettings& settings) {
  if (shape.rank() < 2) return bytes_of_sum(ranks, 4.0 * static_cast<double>(shape.elements()));
  return one_bit_method().bytes(shape, ranks, settings);
}

}  // namespace

ExchangeMethod one_bit_adam_method() {
  return {.name = "one_bit_adam",
          .begin = one_bit_adam_begin,
          .bytes = one_bit_adam_bytes,
          .direction = ExchangeMethod::Direction::kOwnSteps,
          .early = [](const ExchangeSettings& settings) { return std::vector{settings.whole("warmup")}; },
          .takes = ExchangeMethod::Takes::kAll};
}

}  // namespace trireme
