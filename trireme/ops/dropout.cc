// Dropout by counter: whether an element is kept is a function of (seed, step, op, index in the whole
// tensor).
#include "trireme/ops/records.h"

namespace trireme {

void add_dropout(OpTable& table) {
  table.add({.name = "dropout",
             .index =
                 [](const OpInstance& op) {
                   IndexRule r = rule(op, "x[i…] rng[w] -> y[i…]").whole("w");
                   if (op.shape(1).elements() != 2)
                     throw_error("[dropout] rng is {}, two integers expected", to_string(op.inputs[1]));
                   op.attrs.integer("stream");
                   if (const double rate = op.attrs.real("rate"); !(rate >= 0 && rate < 1))
                     throw_error("[dropout] rate is {}, 0 or more and below 1 expected", rate);
                   // A part along any dim but the first is not one run of indices of the whole.
                   for (int d = 1; d < op.shape(0).rank(); ++d) r.whole(fmt::format("i{}", d));
                   return r;
                 },
             .inputs = {DTypeRule::kFormat, DTypeRule::kI64},
             .numbers = {"rate"},
             .gradient =
                 [](GradBuilder& g) {
                   return std::vector{g.op("dropout", {g.dy(), g.in(1)}, g.attrs()), kNoValue};
                 },
             .in_place = {{0, 0}},
             .localize =
                 [](Attrs& attrs, const IndexRule& rule, int index, int64_t begin, int64_t) {
                   const Shape shape = rule.output_shape(0);
                   if (rule.indices[index].name == "i0") {
                     attrs.set("offset",
                               attrs.integer("offset", 0) + begin * shape.elements(1, shape.rank()));
                   }
                 }});
}

}  // namespace trireme
