// Softmax attention that never holds the matrix of scores. g groups of key/value heads, each shared by r
// query heads; r = 1 is ordinary multi-head attention.
#include "trireme/ops/records.h"

namespace trireme {
namespace {

using enum DTypeRule;

// Products of t×s×d per head; causal attention skips about half of them.
double products(const OpInstance& op, const IndexRule& rule, double count) {
  return 2.0 * count * rule.volume() * (op.attrs.integer("causal", 0) ? 0.5 : 1.0);
}

// q, k and v side by side, each with g heads of `width` numbers.
IndexRule packed_rule(const OpInstance& op, int qkv, const WrittenRule& written) {
  const int64_t width = op.attrs.integer("width");
  const int64_t all = op.shape(qkv).rank() == 3 ? op.shape(qkv)[2] : -1;
  if (width < 1 || all < 0 || all % (3 * width) != 0)
    throw_error("[{}] {} are no heads of {} numbers, each with q, k and v", op.op, to_string(op.shape(qkv)),
                width);
  if (qkv > 0 && (op.shape(0).rank() != 5 || op.shape(0)[2] != all / 3 / width || op.shape(0)[3] != 1 ||
                  op.shape(0)[4] != width))
    throw_error("[{}] {} are no {} heads of {} numbers", op.op, to_string(op.shape(0)), all / 3 / width,
                width);
  return rule(op, written)
      .size("s", 3)
      .size("g", all / 3 / width)
      .size("r", 1)
      .size("d", width)
      .whole("t s r d");
}
// Each query of a row meets each key of it.
double packed_products(const OpInstance& op, const IndexRule& rule, int qkv, double count) {
  return products(op, rule, count) / 3 * static_cast<double>(op.shape(qkv)[1]);
}

}  // namespace

void add_attention(OpTable& table) {
  table.add({.name = "attention",
             .index =
                 [](const OpInstance& op) {
                   return rule(op, "q[b t g r d] k[b s g d] v[b s g d] -> o[b t g r d] lse[b g r t]"_rule)
                       .whole("t s d");
                 },
             .outputs = {kFormat, kF32},
             .numbers = {"scale"},
             .gradient =
                 [](GradBuilder& g) {
                   return g.node("attention_grad", {g.dy(), g.in(0), g.in(1), g.in(2), g.out(0), g.out(1)},
                                 g.attrs());
                 },
             .flops = [](const OpInstance& op, const IndexRule& r) { return products(op, r, 2); }});
  table.add({.name = "attention_grad",
             .index =
                 [](const OpInstance& op) {
                   return rule(op,
                               "do[b t g r d] q[b t g r d] k[b s g d] v[b s g d] o[b t g r d] lse[b g r t] "
                               "-> dq[b t g r d] dk[b s g d] dv[b s g d]"_rule)
                       .whole("t s d");
                 },
             .inputs = {kFormat, kFormat, kFormat, kFormat, kFormat, kF32},
             .numbers = {"scale"},
             .gradient = kBackwardOp,
             .flops = [](const OpInstance& op, const IndexRule& r) { return products(op, r, 5); }});
  // Keys and values of a whole sequence of which so far only the first are known.
  table.add({.name = "attention_at",
             .index =
                 [](const OpInstance& op) {
                   return rule(op, "q[b t g r d] k[b s g d] v[b s g d] position[] -> o[b t g r d]"_rule)
                       .whole("t s d");
                 },
             .inputs = {kFormat, kFormat, kFormat, DTypeRule::kI32},
             .numbers = {"scale"},
             .gradient = kGeneratingOp,
             .flops = [](const OpInstance& op, const IndexRule& r) { return products(op, r, 2); }});
  table.add({.name = "attention_packed",
             .index =
                 [](const OpInstance& op) {
                   return packed_rule(op, 0, "qkv[b t (s g d)] -> o[b t g r d] lse[b g r t]"_rule);
                 },
             .outputs = {kFormat, kF32},
             .numbers = {"scale", "width"},
             .gradient = kFusedOp,
             .flops = [](const OpInstance& op, const IndexRule& r) { return packed_products(op, r, 0, 2); }});
  table.add({.name = "attention_packed_grad",
             .index =
                 [](const OpInstance& op) {
                   return packed_rule(
                       op, 1,
                       "do[b t g r d] qkv[b t (s g d)] o[b t g r d] lse[b g r t] -> dqkv[b t (s g d)]"_rule);
                 },
             .inputs = {kFormat, kFormat, kFormat, kF32},
             .numbers = {"scale", "width"},
             .gradient = kFusedOp,
             .flops = [](const OpInstance& op, const IndexRule& r) { return packed_products(op, r, 1, 5); }});
}

}  // namespace trireme
