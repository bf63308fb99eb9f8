// Blocks of neighbours that are the same on all ranks: those whose squares, added up over the ranks, are the
// largest. They are summed as they are, so that what is sent does not grow with the number of ranks; what is
// not sent is added to the next step's gradient.
#include "trireme/exchange/methods.h"
#include "trireme/exchange/sparse.h"

namespace trireme {
namespace {

int64_t blocks_of(const Shape& shape, const ExchangeSettings& settings) {
  const int64_t block = settings.whole("block");
  return (shape.elements() + block - 1) / block;
}

// As blocks, the last one filled up with zeros; and back.
ValueId in_blocks(Addend& x, ValueId value) {
  const int64_t blocks = blocks_of(x.shape(), x.settings), block = x.settings.whole("block");
  ValueId flat = x.flat(value);
  if (blocks * block > x.elements())
    flat = x.b.op("pad", {flat}, {{"dim", 0}, {"low", 0}, {"high", blocks * block - x.elements()}});
  return x.reshaped(flat, {blocks, block});
}
ValueId out_of_blocks(Addend& x, ValueId value) {
  ValueId flat = x.flat(value);
  if (x.b.shape(flat)[0] > x.elements())
    flat = x.b.op("slice", {flat}, {{"dim", 0}, {"start", 0}, {"size", x.elements()}});
  return x.in_shape(flat);
}

NextMove shared_pattern_begin(Addend& x) {
  Builder& b = x.b;
  const ValueId all = x.with_residual(), blocks = in_blocks(x, all);
  const ValueId squares = b.op("sum", {b.op("mul", {blocks, blocks})}, {{"dims", std::vector<int64_t>{1}}});
  return NextMove::send(Move::kSum, {squares}, [&x, &b, all, blocks](const std::vector<ValueId>& sums) {
    const int64_t chosen = kept_elements(b.shape(sums[0]), x.settings.real("ratio"));
    const ValueId pattern = b.node("top_k", {sums[0]}, {{"k", chosen}})[1];
    const auto spread = [&x, &b, pattern](ValueId rows) {
      return out_of_blocks(
          x, b.op("embedding_grad", {rows, pattern}, {{"rows", blocks_of(x.shape(), x.settings)}}));
    };
    const ValueId own = b.op("embedding", {blocks, pattern});
    x.keep_rest(all, spread(own));
    return NextMove::send(Move::kSum, {own}, [spread](const std::vector<ValueId>& rows) {
      return NextMove::done(spread(rows[0]));
    });
  });
}

double shared_pattern_bytes(const Shape& shape, int64_t ranks, const ExchangeSettings& settings) {
  const int64_t blocks = blocks_of(shape, settings);
  const int64_t chosen = kept_elements({blocks}, settings.real("ratio"));
  return bytes_of_sum(ranks, 4.0 * static_cast<double>(blocks)) +
         bytes_of_sum(ranks, 4.0 * static_cast<double>(chosen * settings.whole("block")));
}

}  // namespace

ExchangeMethod shared_pattern_method() {
  return {.name = "shared_pattern", .begin = shared_pattern_begin, .bytes = shared_pattern_bytes};
}

}  // namespace trireme
