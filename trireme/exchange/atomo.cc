// ATOMO on singular parts: of each rank's matrix as many as `rank` says, drawn with probabilities that grow
// with their singular values, and divided by them, so that the sum is right in the mean. All that is drawn
// has one size, because the parts are drawn together (ops/svd_sample.cc).
#include "trireme/exchange/low_rank.h"
#include "trireme/exchange/methods.h"

namespace trireme {
namespace {

NextMove atomo_begin(Addend& x) {
  Builder& b = x.b;
  const int64_t count = x.settings.whole("rank");
  const std::vector<ValueId> parts =
      b.node("svd_sample", {x.matrix(x.gradient()), x.common.step},
             {{"count", count}, {"seed", x.settings.whole("seed")}, {"stream", x.stream()}});
  return NextMove::send(
      Move::kGather, {x.flat(parts[0]), x.flat(parts[1])},
      [&x, &b, count](const std::vector<ValueId>& of_ranks) {
        const ValueId left = x.reshaped(of_ranks[0], {x.common.ranks * count, x.rows()});
        const ValueId right = x.reshaped(of_ranks[1], {x.common.ranks * count, x.columns()});
        return NextMove::done(x.in_shape(b.op("matmul", {left, right}, {{"transpose_a", int64_t{1}}})));
      });
}

double atomo_bytes(const Shape& shape, int64_t ranks, const ExchangeSettings& settings) {
  return bytes_of_gather(ranks, low_rank::bytes(shape, settings));
}

}  // namespace

ExchangeMethod atomo_method() {
  return {.name = "atomo",
          .begin = atomo_begin,
          .bytes = atomo_bytes,
          .problem = low_rank::problem,
          .pays = low_rank::pays};
}

}  // namespace trireme
