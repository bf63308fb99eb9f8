// Softmax attention that never holds the matrix of scores. g groups of key/value heads, each shared by r
// query heads; r = 1 is ordinary multi-head attention.
#include "trireme/ops/records.h"

namespace trireme {
namespace {

constexpr DTypeRule kF = DTypeRule::kFormat, kStat = DTypeRule::kF32;

// Products of t×s×d per head; causal attention skips about half of them.
double products(const OpInstance& op, const IndexRule& rule, double count) {
  return 2.0 * count * rule.volume() * (op.attrs.integer("causal", 0) ? 0.5 : 1.0);
}

}  // namespace

void add_attention(OpTable& table) {
  table.add({.name = "attention",
             .index =
                 [](const OpInstance& op) {
                   return rule(op, "q[b t g r d] k[b s g d] v[b s g d] -> o[b t g r d] lse[b g r t]"_rule)
                       .whole("t s d");
                 },
             .outputs = {kF, kStat},
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
             .inputs = {kF, kF, kF, kF, kF, kStat},
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
             .inputs = {kF, kF, kF, DTypeRule::kI32},
             .numbers = {"scale"},
             .gradient = kGeneratingOp,
             .flops = [](const OpInstance& op, const IndexRule& r) { return products(op, r, 2); }});
}

}  // namespace trireme
