// Softmax and cross-entropy in one. The loss is a sum, with the count beside it, so that microbatches and
// ranks of uneven size average exactly. Where the classes are split, the loss is made in three: the largest
// logit of a row, sums over its classes relative to that, and the loss from both.
#include <algorithm>

#include "trireme/ops/records.h"

namespace trireme {
namespace {

using enum DTypeRule;

// By the logits, which are the largest input of each of these ops, wherever they stand.
double cross_entropy_flops(const OpInstance& op, const IndexRule&) {
  int64_t logits = 0;
  for (const TensorType& input : op.inputs) logits = std::max(logits, input.shape.elements());
  return 5.0 * static_cast<double>(logits);
}

// A part of the classes must know which they are, and of how many.
void localize_classes(Attrs& attrs, const IndexRule& rule, int index, int64_t begin, int64_t) {
  if (rule.indices[index].name != "v") return;
  attrs.set("classes", attrs.integer("classes", rule.indices[index].extent));
  attrs.set("class_offset", attrs.integer("class_offset", 0) + begin);
}

std::vector<ValueId> expand_cross_entropy(Builder& b, const std::vector<ValueId>& inputs, const Attrs& attrs,
                                          const std::string& name) {
  const ValueId logits = inputs[0], targets = inputs[1];
  const std::vector<int64_t> last = {b.shape(logits).rank() - 1};
  const ValueId largest = b.op("max", {logits}, {{"dims", last}}, name + ".largest");
  const std::vector<ValueId> sums =
      b.node("cross_entropy_sums", {logits, targets, largest}, attrs, name + ".sums");
  return b.node("cross_entropy_total", {largest, sums[0], sums[1], targets}, attrs, name);
}

}  // namespace

void add_cross_entropy(OpTable& table) {
  table.add({.name = "cross_entropy",
             .index = written<"logits[b… v] targets[b…] -> loss[] count[] lse[b…]", "v">,
             .inputs = {kFormat, kI32},
             .outputs = {kF32, kF32, kF32},
             .gradient =
                 [](GradBuilder& g) {
                   return std::vector{
                       g.op("cross_entropy_grad", {g.dy(), g.in(0), g.in(1), g.out(2)}, g.attrs()), kNoValue};
                 },
             .flops = cross_entropy_flops,
             .expand = expand_cross_entropy});
  table.add({.name = "cross_entropy_sums",
             .index = written<"logits[b… v] targets[b…] largest[b…] -> exponentials[b…] expected[b…]">,
             .inputs = {kFormat, kI32, kFormat},
             .outputs = {kF32, kF32},
             .gradient = kExpandedOp,
             .flops = cross_entropy_flops,
             .localize = localize_classes});
  table.add({.name = "cross_entropy_total",
             .index = written<"largest[b…] exponentials[b…] expected[b…] targets[b…] -> loss[] count[] "
                              "lse[b…]">,
             .inputs = {kFormat, kF32, kF32, kI32},
             .outputs = {kF32, kF32, kF32},
             .gradient = kExpandedOp});
  table.add({.name = "cross_entropy_grad",
             .index = written<"dloss[] logits[b… v] targets[b…] lse[b…] -> dlogits[b… v]">,
             .inputs = {kF32, kFormat, kI32, kF32},
             .gradient = kBackwardOp,
             .flops = cross_entropy_flops,
             .in_place = {{0, 1}},
             .localize = localize_classes});
  table.add({.name = "cross_entropy_with_grad",
             .index = written<"logits[b… v] targets[b…] dloss[] -> dlogits[b… v] loss[] count[]", "v">,
             .inputs = {kFormat, kI32, kF32},
             .outputs = {kFormat, kF32, kF32},
             .gradient = kFusedOp,
             .flops = cross_entropy_flops,
             .in_place = {{0, 0}}});
}

}  // namespace trireme
