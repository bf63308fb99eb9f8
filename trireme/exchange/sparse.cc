// See sparse.h.
#include "trireme/exchange/sparse.h"

#include <algorithm>
#include <cmath>

#include "trireme/ops/code_lengths.h"

namespace trireme {
namespace {

bool has_rice(const ExchangeSettings& settings) {
  return settings.word("code") == "rice";
}

}  // namespace

int64_t kept_elements(const Shape& shape, double ratio) {
  const int64_t elements = shape.elements();
  return std::clamp<int64_t>(std::llround(ratio * static_cast<double>(elements)),
                             std::min<int64_t>(1, elements), elements);
}

NextMove send_sparse(Addend& x, const std::vector<ValueId>& kept, std::function<NextMove(ValueId sum)> then) {
  const auto sum_of = [&x, then = std::move(then)](ValueId values, ValueId indices) {
    return then(x.b.op("scatter_add", {values, indices}, {{"size", x.elements()}}));
  };
  if (!has_rice(x.settings))
    return NextMove::send(Move::kGather, {kept[0], kept[1]}, [sum_of](const std::vector<ValueId>& of_ranks) {
      return sum_of(of_ranks[0], of_ranks[1]);
    });
  const int64_t count = x.b.shape(kept[1])[0];
  const Attrs attrs{
      {"size", x.elements()}, {"low_bits", rice_low_bits(count, x.elements())}, {"count", count}};
  return NextMove::send(Move::kGather, {kept[0], x.b.op("rice_pack", {kept[1]}, attrs)},
                        [&x, attrs, sum_of](const std::vector<ValueId>& of_ranks) {
                          return sum_of(of_ranks[0], x.b.op("rice_unpack", {of_ranks[1]}, attrs));
                        });
}

double bytes_of_sparse(const Shape& shape, int64_t ranks, int64_t kept, const ExchangeSettings& settings) {
  const int64_t elements = shape.elements();
  const int64_t indices =
      has_rice(settings) ? rice_bytes(kept, elements, rice_low_bits(kept, elements)) : 4 * kept;
  return bytes_of_gather(ranks, static_cast<double>(4 * kept + indices));
}

}  // namespace trireme
