// Only the largest elements are sent, with their indices; what is not sent is added to the next step's
// gradient.
#include "trireme/exchange/methods.h"
#include "trireme/exchange/sparse.h"

namespace trireme {
namespace {

NextMove top_k_begin(Addend& x) {
  const bool feedback = x.settings.whole("feedback") != 0;
  const ValueId all = x.flat(feedback ? x.with_residual() : x.gradient());
  const std::vector<ValueId> kept =
      x.b.node("top_k", {all}, {{"k", kept_elements(x.shape(), x.settings.real("ratio"))}});
  if (feedback) x.keep_rest(kept[2]);
  return send_sparse(x, kept, [&x](ValueId sum) { return NextMove::done(x.in_shape(sum)); });
}

double top_k_bytes(const Shape& shape, int64_t ranks, const ExchangeSettings& settings) {
  return bytes_of_sparse(shape, ranks, kept_elements(shape, settings.real("ratio")), settings);
}

}  // namespace

ExchangeMethod top_k_method() {
  return {.name = "top_k", .begin = top_k_begin, .bytes = top_k_bytes};
}

}  // namespace trireme
