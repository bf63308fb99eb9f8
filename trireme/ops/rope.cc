// Rotary positions, rotate-half form: pairs (i, i + d/2) are turned by an angle that grows with the position.
#include "trireme/ops/records.h"

namespace trireme {

void add_rope(OpTable& table) {
  table.add(
      {.name = "rope",
       .index =
           [](const OpInstance& op) {
             IndexRule r = rule(op, "x[b t i… d] -> y[b t i… d]").whole("d");
             if (op.shape(0).back() % 2 != 0)
               throw_error("[rope] the last dim of {} must be even", to_string(op.shape(0)));
             return r;
           },
       .numbers = {"base"},
       .gradient =
           [](GradBuilder& g) {
             return std::vector{
                 g.op("rope", {g.dy()}, with(g.attrs(), {{"inverse", 1 - g.attrs().integer("inverse", 0)}}))};
           },
       .flops = [](const OpInstance& op,
                   const IndexRule&) { return 3.0 * static_cast<double>(op.shape(0).elements()); },
       .localize =
           [](Attrs& attrs, const IndexRule& rule, int index, int64_t begin, int64_t) {
             if (rule.indices[index].name == "t") attrs.set("offset", attrs.integer("offset", 0) + begin);
           }});
}

}  // namespace trireme
