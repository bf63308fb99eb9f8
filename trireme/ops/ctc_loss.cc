// Connectionist temporal classification (Graves et al. 2006): the loss of a sequence of labels whose places
// among the frames are not known. −ln of the probability of all alignments together: paths of one class a
// frame that become the labels when repeats are merged and blanks dropped. Sums over rows, with their count
// beside them, as cross_entropy. A row with fewer frames than its labels need (one each, and a blank between
// equal neighbours) has no alignment: it adds nothing and does not count.
#include "trireme/ops/records.h"

namespace trireme {
namespace {

using enum DTypeRule;

IndexRule alignment_rule(const OpInstance& op, const WrittenRule& written) {
  IndexRule result = rule(op, written).whole("t c u");
  const int64_t classes = op.shape(0)[2], blank = op.attrs.integer("blank", 0);
  if (blank < 0 || blank >= classes)
    throw_error("[{}] blank is {}, and there are {} classes: 0 to {} expected", op.op, blank, classes,
                classes - 1);
  return result;
}

// Of each frame a softmax over the classes, and `passes` over the labels with blanks between and around.
double alignment_flops(const OpInstance& op, double passes) {
  const Shape& x = op.shape(0);
  const double frames = static_cast<double>(x[0] * x[1]);
  return frames * (5 * static_cast<double>(x[2]) + passes * 10 * static_cast<double>(2 * op.shape(1)[1] + 1));
}

}  // namespace

void add_ctc_loss(OpTable& table) {
  table.add({.name = "ctc_loss",
             .index =
                 [](const OpInstance& op) {
                   return alignment_rule(
                       op, "logits[b t c] targets[b u] frames[b] labels[b] -> loss[] count[]"_rule);
                 },
             .inputs = {kFormat, kI32, kI32, kI32},
             .outputs = {kF32, kF32},
             .gradient =
                 [](GradBuilder& g) {
                   return std::vector{
                       g.op("ctc_loss_grad", {g.in(0), g.in(1), g.in(2), g.in(3), g.dy()}, g.attrs()),
                       kNoValue, kNoValue, kNoValue};
                 },
             .flops = [](const OpInstance& op, const IndexRule&) { return alignment_flops(op, 1); }});
  table.add({.name = "ctc_loss_grad",
             .index =
                 [](const OpInstance& op) {
                   return alignment_rule(
                       op, "logits[b t c] targets[b u] frames[b] labels[b] dloss[] -> dlogits[b t c]"_rule);
                 },
             .inputs = {kFormat, kI32, kI32, kI32, kF32},
             .gradient = kBackwardOp,
             .flops = [](const OpInstance& op, const IndexRule&) { return alignment_flops(op, 3); }});
}

}  // namespace trireme
