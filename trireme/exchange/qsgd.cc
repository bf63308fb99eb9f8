// QSGD: each element as a level of its bucket's norm, rounded by chance so that the mean is right.
#include "trireme/exchange/methods.h"
#include "trireme/ops/code_lengths.h"

namespace trireme {
namespace {

bool has_elias(const ExchangeSettings& settings) {
  return settings.word("code") == "elias";
}

NextMove qsgd_begin(Addend& x) {
  Builder& b = x.b;
  Attrs attrs{{"bits", x.settings.whole("bits")}, {"bucket", x.settings.whole("bucket")}};
  if (has_elias(x.settings)) attrs.set("elias", int64_t{1});
  Attrs drawn = attrs;
  drawn.set("seed", x.settings.whole("seed"));
  drawn.set("stream", x.stream());
  attrs.set("size", x.elements());
  return NextMove::send(Move::kGather, b.node("quantise", {x.flat(x.gradient()), x.common.step}, drawn),
                        [&x, &b, attrs](const std::vector<ValueId>& of_ranks) {
                          return NextMove::done(x.in_shape(b.op("dequantise", of_ranks, attrs)));
                        });
}

double qsgd_bytes(const Shape& shape, int64_t ranks, const ExchangeSettings& settings) {
  const int64_t bits = settings.whole("bits"), bucket = settings.whole("bucket");
  const int64_t buckets = (shape.elements() + bucket - 1) / bucket;
  const int64_t codes =
      has_elias(settings) ? elias_bytes(bucket, (1 << (bits - 1)) - 1) : (bucket * bits + 7) / 8;
  return bytes_of_gather(ranks, static_cast<double>(buckets * (codes + 4)));
}

}  // namespace

ExchangeMethod qsgd_method() {
  return {.name = "qsgd", .begin = qsgd_begin, .bytes = qsgd_bytes};
}

}  // namespace trireme
