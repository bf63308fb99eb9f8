// Only the largest elements are sent, with their indices; what is not sent is added to the next step's
// gradient.
#include <algorithm>
#include <cmath>

#include "trireme/exchange/methods.h"

namespace trireme {
namespace {

Turn begin(Addend& x) {
  Builder& b = x.b;
  const bool feedback = x.settings.whole("feedback") != 0;
  const ValueId all = x.flat(feedback ? x.with_residual() : x.gradient());
  const std::vector<ValueId> kept =
      b.node("top_k", {all}, {{"k", kept_elements(x.shape(), x.settings.real("ratio"))}});
  if (feedback) x.keep_rest(kept[2]);
  return Turn::send(Move::kGather, {kept[0], kept[1]}, [&x, &b](const std::vector<ValueId>& of_ranks) {
    return Turn::done(x.in_shape(b.op("scatter_add", of_ranks, {{"size", x.elements()}})));
  });
}

double bytes(const Shape& shape, int64_t ranks, const ExchangeSettings& settings) {
  return bytes_of_gather(ranks, 8.0 * static_cast<double>(kept_elements(shape, settings.real("ratio"))));
}

}  // namespace

int64_t kept_elements(const Shape& shape, double ratio) {
  const int64_t elements = shape.elements();
  return std::clamp<int64_t>(std::llround(ratio * static_cast<double>(elements)),
                             std::min<int64_t>(1, elements), elements);
}

ExchangeMethod top_k_method() {
  return {.name = "top_k", .begin = begin, .bytes = bytes};
}

}  // namespace trireme
