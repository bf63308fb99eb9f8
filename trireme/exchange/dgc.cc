// Deep gradient compression: momentum is part of what is accumulated on a rank, and of what was sent both the
// accumulated gradient and its velocity start anew.
#include <cmath>

#include "trireme/exchange/methods.h"

namespace trireme {
namespace {

Turn begin(Addend& x) {
  Builder& b = x.b;
  const double momentum = x.settings.real("momentum"), clip = x.settings.real("clip");
  const ValueId velocity = x.keep("velocity", x.shape()), waiting = x.keep_rest_in("waiting");
  // Of the mean, and clipped by what the rank's own gradients may be together.
  const ValueId scale = b.op("gradient_scale", {x.common.local_squares, x.common.count, x.common.loss_scale},
                             {{"max_norm", clip / std::sqrt(static_cast<double>(x.common.ranks))}});
  ValueId faster, sum;
  if (x.settings.whole("nesterov") != 0) {
    faster = b.op("affine", {b.op("add_scaled", {velocity, x.gradient(), scale})}, {{"scale", momentum}});
    sum = b.op("add_scaled", {b.op("add", {waiting, faster}), x.gradient(), scale});
  } else {
    faster = b.op("add_scaled", {b.op("affine", {velocity}, {{"scale", momentum}}), x.gradient(), scale});
    sum = b.op("add", {waiting, faster});
  }
  const std::vector<ValueId> kept =
      b.node("top_k", {x.flat(sum)}, {{"k", kept_elements(x.shape(), x.settings.real("ratio"))}});
  x.becomes(waiting, kept[2]);
  const bool masks = x.settings.whole("masking") != 0;
  x.becomes(velocity, masks ? b.op("clear_at", {x.flat(faster), kept[1]}) : faster);
  return Turn::send(Move::kGather, {kept[0], kept[1]}, [&x, &b](const std::vector<ValueId>& of_ranks) {
    const ValueId mean = b.op("scatter_add", of_ranks, {{"size", x.elements()}});
    return Turn::done(x.in_shape(b.op("mul", {mean, x.common.unit})));
  });
}

}  // namespace

ExchangeMethod dgc_method() {
  return {.name = "dgc",
          .begin = begin,
          .bytes = top_k_method().bytes,
          .direction = ExchangeMethod::Direction::kOwnMomentum};
}

}  // namespace trireme
