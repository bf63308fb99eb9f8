// Rows of a table by id. A part of the table adds zero for ids that it does not hold, so parts add up.
#include "trireme/ops/records.h"

namespace trireme {

void add_embedding(OpTable& table) {
  table.add({.name = "embedding",
             .index = written<"table[v h] ids[b…] -> y[b… h]">,
             .inputs = {DTypeRule::kFormat, DTypeRule::kI32},
             .gradient =
                 [](GradBuilder& g) {
                   return std::vector{g.op("embedding_grad", {g.dy(), g.in(1)},
                                           with(g.attrs(), {{"rows", g.shape(g.in(0))[0]}})),
                                      kNoValue};
                 },
             .flops = no_flops,
             .localize =
                 [](Attrs& attrs, const IndexRule& rule, int index, int64_t begin, int64_t) {
                   if (rule.indices[index].name != "v") return;
                   attrs.set("whole_rows", attrs.integer("whole_rows", rule.indices[index].extent));
                   attrs.set("row_offset", attrs.integer("row_offset", 0) + begin);
                 }});
  table.add({.name = "embedding_grad",
             .index =
                 [](const OpInstance& op) {
                   const int64_t rows = op.attrs.integer("rows");
                   if (rows < 0 || rows > kMaxElements)
                     throw_error("[embedding_grad] rows is {}, 0 to 2^48 expected", rows);
                   return rule(op, "dy[b… h] ids[b…] -> dtable[v h]"_rule).size("v", rows);
                 },
             .inputs = {DTypeRule::kFormat, DTypeRule::kI32},
             .gradient = kBackwardOp,
             .localize =
                 [](Attrs& attrs, const IndexRule& rule, int index, int64_t begin, int64_t end) {
                   if (rule.indices[index].name != "v") return;
                   attrs.set("row_offset", attrs.integer("row_offset", 0) + begin);
                   attrs.set("rows", end - begin);
                 }});
}

}  // namespace trireme
