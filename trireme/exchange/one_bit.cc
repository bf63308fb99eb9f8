// 1-bit SGD: of each row (an index of the first dim) one bit an element and two means. Each rank adds up what
// all have of its rows, with what it left out the last time, and sends the sum in the same form.
#include "trireme/exchange/methods.h"

namespace trireme {
namespace {

// As many as make equal parts.
int64_t rows_dealt(int64_t rows, int64_t ranks) {
  return (rows + ranks - 1) / ranks * ranks;
}

double one_bit_bytes(const Shape& shape, int64_t ranks, const ExchangeSettings&) {
  const int64_t rows = shape.rank() == 0 ? 1 : shape[0], columns = rows == 0 ? 0 : shape.elements() / rows;
  return 2 * bytes_of_deal(ranks, static_cast<double>(rows_dealt(rows, ranks) * ((columns + 7) / 8 + 8)));
}

}  // namespace

NextMove one_bit_sum(Addend& x, ValueId addend, const std::function<NextMove(ValueId sum)>& then) {
  Builder& b = x.b;
  const int64_t ranks = x.common.ranks, rows = rows_dealt(x.rows(), ranks), own = rows / ranks;
  const int64_t columns = x.columns(), bytes = (columns + 7) / 8;
  const auto packed = [&b](ValueId of, int64_t to_rows) {
    return b.node("one_bit_pack", {of}, {{"rows", to_rows}});
  };
  const auto unpacked = [&b, columns](ValueId bits, ValueId means, int64_t of_rows) {
    return b.op("one_bit_unpack", {bits, means}, {{"rows", of_rows}, {"columns", columns}});
  };
  const ValueId all = x.matrix(x.with_residual(addend));
  const std::vector<ValueId> sent = packed(all, rows);
  x.keep_rest(x.in_shape(all), x.in_shape(unpacked(sent[0], sent[1], x.rows())));
  return NextMove::send(
      Move::kDeal, {x.reshaped(sent[0], {ranks, own * bytes}), x.reshaped(sent[1], {ranks, own * 2})},
      [=, &x, &b](const std::vector<ValueId>& dealt) {
        const ValueId addends =
            unpacked(x.reshaped(dealt[0], {rows, bytes}), x.reshaped(dealt[1], {rows, 2}), rows);
        const ValueId sum =
            b.op("sum", {x.reshaped(addends, {ranks, own, columns})}, {{"dims", std::vector<int64_t>{0}}});
        const ValueId left = x.keep("owner_residual", {own, columns});
        const ValueId total = b.op("add_scaled", {sum, left, x.common.unit});
        const std::vector<ValueId> again = packed(total, own);
        x.becomes(left, b.op("residual", {total, unpacked(again[0], again[1], own), x.common.unit}));
        return NextMove::send(
            Move::kGather, {x.flat(again[0]), x.flat(again[1])},
            [=, &x](const std::vector<ValueId>& of_owners) {
              return then(x.in_shape(unpacked(x.reshaped(of_owners[0], {rows, bytes}),
                                              x.reshaped(of_owners[1], {rows, 2}), x.rows())));
            });
      });
}

ExchangeMethod one_bit_method() {
  return {.name = "one_bit",
          .begin = [](Addend& x) { return one_bit_sum(x, x.gradient(), NextMove::done); },
          .bytes = one_bit_bytes};
}

}  // namespace trireme
