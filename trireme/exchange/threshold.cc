// What has added up to more than ± a threshold is sent as that, in two bits, and taken off.
#include "trireme/exchange/methods.h"

namespace trireme {
namespace {

NextMove threshold_begin(Addend& x) {
  Builder& b = x.b;
  const ValueId limit = b.op("affine", {x.common.unit}, {{"scale", x.settings.real("threshold")}});
  const auto unpacked = [&x, &b, limit](ValueId codes) {
    return x.in_shape(b.op("ternary_unpack", {codes, limit}, {{"size", x.elements()}}));
  };
  const ValueId all = x.with_residual();
  const ValueId codes = b.op("threshold_pack", {x.flat(all), limit});
  x.keep_rest(all, unpacked(x.reshaped(codes, {1, b.shape(codes)[0]})));
  return NextMove::send(Move::kGather, {codes}, [unpacked](const std::vector<ValueId>& of_ranks) {
    return NextMove::done(unpacked(of_ranks[0]));
  });
}

double threshold_bytes(const Shape& shape, int64_t ranks, const ExchangeSettings&) {
  return bytes_of_gather(ranks, static_cast<double>((shape.elements() + 3) / 4));
}

}  // namespace

ExchangeMethod threshold_method() {
  return {.name = "threshold", .begin = threshold_begin, .bytes = threshold_bytes};
}

}  // namespace trireme
