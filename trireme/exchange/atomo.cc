// ATOMO on singular parts: of each rank's matrix as many as `rank` says, drawn with probabilities that grow
// with their singular values, and divided by them, so that the sum is right in the mean. All that is drawn
// has one size, because the parts are drawn together (ops/svd_sample.cc).
#include <algorithm>

#include "trireme/exchange/methods.h"

namespace trireme {
namespace {

int64_t rows_of(const Shape& shape) {
  return shape.rank() == 0 ? 1 : shape[0];
}
int64_t columns_of(const Shape& shape) {
  return rows_of(shape) == 0 ? 0 : shape.elements() / rows_of(shape);
}

Turn begin(Addend& x) {
  Builder& b = x.b;
  const int64_t count = x.settings.whole("rank");
  const std::vector<ValueId> parts =
      b.node("svd_sample", {x.matrix(x.gradient()), x.common.step},
             {{"count", count}, {"seed", x.settings.whole("seed")}, {"stream", x.stream()}});
  return Turn::send(
      Move::kGather, {x.flat(parts[0]), x.flat(parts[1])},
      [&x, &b, count](const std::vector<ValueId>& of_ranks) {
        const ValueId left = x.reshaped(of_ranks[0], {x.common.ranks * count, x.rows()});
        const ValueId right = x.reshaped(of_ranks[1], {x.common.ranks * count, x.columns()});
        return Turn::done(x.in_shape(b.op("matmul", {left, right}, {{"transpose_a", int64_t{1}}})));
      });
}

double bytes(const Shape& shape, int64_t ranks, const ExchangeSettings& settings) {
  return bytes_of_gather(
      ranks, 4.0 * settings.real("rank") * static_cast<double>(rows_of(shape) + columns_of(shape)));
}

std::string problem(const Shape& shape, const ExchangeSettings& settings) {
  const int64_t most = std::min(rows_of(shape), columns_of(shape));
  if (settings.whole("rank") <= most) return "";
  return fmt::format("rank {} is larger than that of a matrix {}x{}", settings.whole("rank"), rows_of(shape),
                     columns_of(shape));
}

}  // namespace

ExchangeMethod atomo_method() {
  return {.name = "atomo",
          .begin = begin,
          .bytes = bytes,
          .problem = problem,
          .pays = [](const Shape& shape, const ExchangeSettings& settings) {
            return 2 * settings.whole("rank") * (rows_of(shape) + columns_of(shape)) < shape.elements();
          }};
}

}  // namespace trireme
