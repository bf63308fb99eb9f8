// Dropout by counter: whether an element is kept is a function of (seed, step, op, index in the whole
// tensor). Alone, or between a bias and a residual sum.
#include "trireme/ir/pieces.h"
#include "trireme/ops/records.h"

namespace trireme {
namespace {

// Of the tensor that x is a part of.
Shape whole_shape(const Attrs& attrs, const Shape& x) {
  return attrs.has("whole") ? Shape(attrs.integers("whole")) : x;
}

void check_whole(const OpInstance& op) {
  if (!op.attrs.has("whole")) return;
  const Shape whole = checked_shape(op, op.attrs.integers("whole"));
  bool holds = whole.rank() == op.shape(0).rank();
  for (int d = 0; holds && d < whole.rank(); ++d) holds = op.shape(0)[d] <= whole[d];
  if (!holds)
    throw_error("[{}] {} is no part of a whole of {}", op.op, to_string(op.shape(0)), to_string(whole));
}

// Of what is pieces already nothing is cut further.
IndexRule in_pieces(const OpInstance& op, IndexRule rule) {
  check_pieces(op, -1);
  if (!has_pieces(op.attrs)) return rule;
  const int dim = static_cast<int>(op.attrs.integer("pieces_dim"));
  const int64_t extent = whole_shape(op.attrs, op.shape(0))[dim], stride = op.attrs.integer("stride");
  if (extent % stride != 0)
    throw_error("[{}] {} elements of a whole are not pieces that begin {} after one another", op.op, extent,
                stride);
  for (const int index : rule.inputs[0][dim]) rule.indices[index].split = Index::Split::kWhole;
  return rule;
}

IndexRule dropout_rule(const OpInstance& op, const WrittenRule& written) {
  IndexRule result = rule(op, written).whole("w");
  if (op.shape(1).elements() != 2)
    throw_error("[{}] rng is {}, two integers expected", op.op, to_string(op.inputs[1]));
  op.attrs.integer("stream");
  if (const double rate = op.attrs.real("rate"); !(rate >= 0 && rate < 1))
    throw_error("[{}] rate is {}, 0 or more and below 1 expected", op.op, rate);
  check_whole(op);
  return in_pieces(op, std::move(result));
}

void localize(Attrs& attrs, const IndexRule& rule, int index, int64_t begin, int64_t) {
  const int dim = IndexRule::dim_of(rule.inputs[0], index);
  const Shape whole = whole_shape(attrs, rule.output_shape(0));
  attrs.set("whole", std::vector<int64_t>(whole.begin(), whole.end()));
  attrs.set("offset", attrs.integer("offset", 0) + begin * whole.elements(dim + 1, whole.rank()));
}

}  // namespace

void add_dropout(OpTable& table) {
  table.add({.name = "dropout",
             .index = [](const OpInstance& op) { return dropout_rule(op, "x[i…] rng[w] -> y[i…]"_rule); },
             .inputs = {DTypeRule::kFormat, DTypeRule::kI64},
             .numbers = {"rate"},
             .gradient =
                 [](GradBuilder& g) {
                   return std::vector{g.op("dropout", {g.dy(), g.in(1)}, g.attrs()), kNoValue};
                 },
             .in_place = {{0, 0}},
             .localize = localize,
             .localizes = OpRecord::Localizes::kPieces});
  table.add({.name = "dropout_add",
             .index =
                 [](const OpInstance& op) {
                   const bool bias = op.inputs.size() == 4;
                   return dropout_rule(op, bias ? "x[b… h] rng[w] residual[b… h] bias[h] -> s[b… h]"_rule
                                                : "x[i…] rng[w] residual[i…] -> s[i…]"_rule);
                 },
             .inputs = {DTypeRule::kFormat, DTypeRule::kI64},
             .numbers = {"rate"},
             .gradient = kFusedOp,
             .flops =
                 [](const OpInstance& op, const IndexRule&) {
                   return (op.inputs.size() - 1.0) * static_cast<double>(op.shape(0).elements());
                 },
             .in_place = {{0, 0}, {0, 2}},
             .localize = localize,
             .localizes = OpRecord::Localizes::kPieces});
}

}  // namespace trireme
