// A sum of the largest elements that stays as sparse as its addends: the ring of a reduce-scatter, in which
// each rank keeps the largest of what has come so far and its own, and sends only these on; then all gather
// what the last ones have. What a rank leaves out, of its own and of the others', is added to its next step's
// gradient.
#include <memory>

#include "trireme/exchange/methods.h"
#include "trireme/exchange/sparse.h"

namespace trireme {
namespace {

// Elements of each rank's part of the ring, the last filled up with zeros; and those of it that are sent.
int64_t part_elements(const Shape& shape, int64_t ranks) {
  return (shape.elements() + ranks - 1) / ranks;
}
int64_t sent_elements(const Shape& shape, int64_t ranks, const ExchangeSettings& settings) {
  return kept_elements({part_elements(shape, ranks)}, settings.real("ratio"));
}

// It lives as long as there are turns to come, which hold it.
class Ring : public std::enable_shared_from_this<Ring> {
 public:
  explicit Ring(Addend& x)
      : x_(x),
        ranks_(x.common.ranks),
        part_(part_elements(x.shape(), ranks_)),
        sent_(sent_elements(x.shape(), ranks_, x.settings)),
        all_(padded(x.flat(x.with_residual()))) {}

  // After so many hops: what has come of the part is added to this rank's own.
  NextMove hop(int64_t hops, ValueId arrived) {
    const int64_t part = (x_.common.rank + ranks_ - hops) % ranks_;
    const ValueId own = x_.b.op("slice", {all_}, {{"dim", 0}, {"start", part * part_}, {"size", part_}});
    const std::vector<ValueId> kept =
        x_.b.node("top_k", {arrived == kNoValue ? own : x_.b.op("add", {own, arrived})}, {{"k", sent_}});
    rests_.push_back(kept[2]);
    if (hops + 1 < ranks_)
      return NextMove::send(Move::kShift, {kept[0], kept[1]},
                            [self = shared_from_this(), hops](const std::vector<ValueId>& before) {
                              return self->hop(hops + 1, self->dense(before[0], before[1]));
                            });
    x_.keep_rest(unpadded(in_order_of_parts()));
    return NextMove::send(Move::kGather, {kept[0], kept[1]},
                          [self = shared_from_this()](const std::vector<ValueId>& of_ranks) {
                            return self->gathered(of_ranks);
                          });
  }

 private:
  // What is left of each part. Backwards, rests are those of the part behind the rank's own and so on round
  // the ring; all ranks add the same nodes, so that where the first part is in two rounds is an attribute.
  ValueId in_order_of_parts() {
    std::vector<ValueId> rounds(rests_.rbegin(), rests_.rend());
    rounds.insert(rounds.end(), rests_.rbegin(), rests_.rend());
    const int64_t first = ranks_ - 1 - x_.common.rank;
    return x_.b.op("slice", {x_.b.op("concat", rounds, {{"dim", 0}})},
                   {{"dim", 0}, {"start", first * part_}, {"size", ranks_ * part_}});
  }
  ValueId padded(ValueId flat) {
    const int64_t more = ranks_ * part_ - x_.elements();
    return more == 0 ? flat : x_.b.op("pad", {flat}, {{"dim", 0}, {"low", 0}, {"high", more}});
  }
  ValueId unpadded(ValueId flat) {
    if (ranks_ * part_ > x_.elements())
      flat = x_.b.op("slice", {flat}, {{"dim", 0}, {"start", 0}, {"size", x_.elements()}});
    return x_.in_shape(flat);
  }
  ValueId dense(ValueId values, ValueId indices) {
    return x_.b.op("scatter_add", {x_.reshaped(values, {1, sent_}), x_.reshaped(indices, {1, sent_})},
                   {{"size", part_}});
  }

  // Rank r ends with the part behind its own.
  NextMove gathered(const std::vector<ValueId>& of_ranks) {
    std::vector<ValueId> parts;
    for (int64_t part = 0; part < ranks_; ++part) {
      const auto row = [&](ValueId of) {
        return x_.b.op("slice", {of}, {{"dim", 0}, {"start", (part + ranks_ - 1) % ranks_}, {"size", 1}});
      };
      parts.push_back(dense(row(of_ranks[0]), row(of_ranks[1])));
    }
    return NextMove::done(unpadded(x_.b.op("concat", parts, {{"dim", 0}})));
  }

  Addend& x_;
  int64_t ranks_, part_, sent_;
  ValueId all_;
  std::vector<ValueId> rests_;  // after each hop, of the part that had come
};

double pruned_ring_bytes(const Shape& shape, int64_t ranks, const ExchangeSettings& settings) {
  return 2 * bytes_of_gather(ranks, 8.0 * static_cast<double>(sent_elements(shape, ranks, settings)));
}

}  // namespace

ExchangeMethod pruned_ring_method() {
  return {.name = "pruned_ring",
          .begin = [](Addend& x) { return std::make_shared<Ring>(x)->hop(0, kNoValue); },
          .bytes = pruned_ring_bytes};
}

}  // namespace trireme
