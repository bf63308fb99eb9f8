// Rotary positions, rotate-half form: pairs (i, i + d/2) are turned by an angle that grows with the position.
// rope_at takes the positions of the first rows as an input, for generating text token by token. Rows may be
// a part of a sequence: one run of it, or pieces.
#include "trireme/ir/pieces.h"
#include "trireme/ops/records.h"

namespace trireme {
namespace {

IndexRule rotation(const OpInstance& op, const WrittenRule& written) {
  IndexRule r = rule(op, written).whole("d");
  if (op.shape(0).back() % 2 != 0)
    throw_error("[{}] the last dim of {} must be even", op.op, to_string(op.shape(0)));
  return r;
}

void shift_positions(Attrs& attrs, const IndexRule& rule, int index, int64_t begin, int64_t) {
  if (rule.indices[index].name == "t") attrs.set("offset", attrs.integer("offset", 0) + begin);
}

}  // namespace

void add_rope(OpTable& table) {
  table.add(
      {.name = "rope",
       .index =
           [](const OpInstance& op) {
             IndexRule r = rotation(op, "x[b t i… d] -> y[b t i… d]"_rule);
             check_pieces(op, 1);
             return has_pieces(op.attrs) ? r.whole("t") : r;
           },
       .numbers = {"base"},
       .gradient =
           [](GradBuilder& g) {
             return std::vector{
                 g.op("rope", {g.dy()}, with(g.attrs(), {{"inverse", 1 - g.attrs().integer("inverse", 0)}}))};
           },
       .flops = flops_per_element<3>,
       .localize = shift_positions,
       .localizes = OpRecord::Localizes::kPieces});
  table.add(
      {.name = "rope_at",
       .index =
           [](const OpInstance& op) { return rotation(op, "x[b t i… d] position[b] -> y[b t i… d]"_rule); },
       .inputs = {DTypeRule::kFormat, DTypeRule::kI32},
       .numbers = {"base"},
       .gradient = kGeneratingOp,
       .flops = flops_per_element<3>,
       .localize = shift_positions});
}

}  // namespace trireme
