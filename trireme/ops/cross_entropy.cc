// Softmax and cross-entropy in one. The loss is a sum, with the count beside it, so that microbatches and
// ranks of uneven size average exactly.
#include "trireme/ops/records.h"

namespace trireme {
namespace {

constexpr DTypeRule kF = DTypeRule::kFormat, kStat = DTypeRule::kF32, kId = DTypeRule::kI32;

double flops(const OpInstance& op, const IndexRule&) {
  return 5.0 * static_cast<double>(op.shape(0).elements());
}

}  // namespace

void add_cross_entropy(OpTable& table) {
  table.add({.name = "cross_entropy",
             .index =
                 [](const OpInstance& op) {
                   return rule(op, "logits[b… v] targets[b…] -> loss[] count[] lse[b…]").whole("v");
                 },
             .inputs = {kF, kId},
             .outputs = {kStat, kStat, kStat},
             .gradient =
                 [](GradBuilder& g) {
                   return std::vector{
                       g.op("cross_entropy_grad", {g.dy(), g.in(0), g.in(1), g.out(2)}, g.attrs()), kNoValue};
                 },
             .flops = flops});
  table.add({.name = "cross_entropy_grad",
             .index =
                 [](const OpInstance& op) {
                   return rule(op, "dloss[] logits[b… v] targets[b…] lse[b…] -> dlogits[b… v]").whole("v");
                 },
             .inputs = {kStat, kF, kId, kStat},
             .gradient = kBackwardOp,
             .flops = flops,
             .in_place = {{0, 1}}});
}

}  // namespace trireme
