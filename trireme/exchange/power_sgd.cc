// PowerSGD: a matrix is sent as the product of two narrow ones, by one turn of the power method that begins
// where the last step ended.
#include "trireme/exchange/low_rank.h"
#include "trireme/exchange/methods.h"

namespace trireme {
namespace {

NextMove power_sgd_begin(Addend& x) {
  Builder& b = x.b;
  const ValueId all = x.with_residual(), matrix = x.matrix(all);
  const ValueId right = x.keep("power_right", {x.columns(), x.settings.whole("rank")}, Addend::Kept::Of::kAll,
                               Addend::Start::kNormal);
  return NextMove::send(
      Move::kSum, {b.op("matmul", {matrix, right})},
      [&x, &b, all, matrix, right](const std::vector<ValueId>& left) {
        const ValueId basis = b.op("orthogonalise", {left[0]});
        return NextMove::send(
            Move::kSum, {b.op("matmul", {matrix, basis}, {{"transpose_a", int64_t{1}}})},
            [&x, &b, all, right, basis](const std::vector<ValueId>& sums) {
              const ValueId sum = x.in_shape(b.op("matmul", {basis, sums[0]}, {{"transpose_b", int64_t{1}}}));
              const double mean = 1.0 / static_cast<double>(x.common.ranks);
              x.keep_rest(all, b.op("affine", {sum}, {{"scale", mean}}));
              x.becomes(right, b.op("div", {sums[0], x.common.unit}));
              return NextMove::done(sum);
            });
      });
}

double power_sgd_bytes(const Shape& shape, int64_t ranks, const ExchangeSettings& settings) {
  return bytes_of_sum(ranks, low_rank::bytes(shape, settings));
}

}  // namespace

ExchangeMethod power_sgd_method() {
  return {.name = "power_sgd",
          .begin = power_sgd_begin,
          .bytes = power_sgd_bytes,
          .problem = low_rank::problem,
          .pays = low_rank::pays};
}

}  // namespace trireme
