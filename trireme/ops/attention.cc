// Softmax attention that never holds the matrix of scores. g groups of key/value heads, each shared by r
// query heads; r = 1 is ordinary multi-head attention. Queries may be a part of a sequence, of which keys and
// values are whole.
#include <algorithm>

#include "trireme/ops/records.h"

namespace trireme {
namespace {

using enum DTypeRule;

// The share of keys that queries see. Of all queries of a sequence about half; of a part of them as many more
// as it comes later.
double share_seen(const OpInstance& op, const Shape& q, const Shape& k) {
  if (!op.attrs.integer("causal", 0)) return 1;
  const double keys = static_cast<double>(k[1]), queries = static_cast<double>(q[1]);
  if (!op.attrs.has("offset") || keys == 0) return 0.5;
  return std::clamp((static_cast<double>(op.attrs.integer("offset")) + (queries + 1) / 2) / keys, 0.0, 1.0);
}

// Products of t×s×d per head.
double products(const IndexRule& rule, double count, double seen) {
  return 2.0 * count * rule.volume() * seen;
}

// The first query of a part sees the keys of all before it.
void localize_queries(Attrs& attrs, const IndexRule& rule, int index, int64_t begin, int64_t) {
  if (rule.indices[index].name != "t") return;
  int64_t offset = 0;
  for (const Index& other : rule.indices) {
    if (other.name == "s") offset += other.extent;
    if (other.name == "t") offset -= other.extent;
  }
  attrs.set("offset", attrs.integer("offset", offset) + begin);
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
  return products(rule, count, op.attrs.integer("causal", 0) ? 0.5 : 1.0) / 3 *
         static_cast<double>(op.shape(qkv)[1]);
}

}  // namespace

void add_attention(OpTable& table) {
  table.add(
      {.name = "attention",
       .index = written<"q[b t g r d] k[b s g d] v[b s g d] -> o[b t g r d] lse[b g r t]", "s d">,
       .outputs = {kFormat, kF32},
       .numbers = {"scale"},
       .gradient =
           [](GradBuilder& g) {
             return g.node("attention_grad", {g.dy(), g.in(0), g.in(1), g.in(2), g.out(0), g.out(1)},
                           g.attrs());
           },
       .flops = [](const OpInstance& op,
                   const IndexRule& r) { return products(r, 2, share_seen(op, op.shape(0), op.shape(1))); },
       .localize = localize_queries,
       .heads = "g"});
  table.add(
      {.name = "attention_grad",
       .index = written<"do[b t g r d] q[b t g r d] k[b s g d] v[b s g d] o[b t g r d] lse[b g r t] "
                        "-> dq[b t g r d] dk[b s g d] dv[b s g d]",
                        "s d">,
       .inputs = {kFormat, kFormat, kFormat, kFormat, kFormat, kF32},
       .numbers = {"scale"},
       .gradient = kBackwardOp,
       .flops = [](const OpInstance& op,
                   const IndexRule& r) { return products(r, 5, share_seen(op, op.shape(1), op.shape(2))); },
       .localize = localize_queries,
       .heads = "g"});
  // Of row b of keys and values only the first lengths[b] are there, the rest is padding: what a decoder asks
  // of sequences that are not equally long. Queries see all of them.
  table.add(
      {.name = "attention_padded",
       .index = written<"q[b t g r d] k[b s g d] v[b s g d] lengths[b] -> o[b t g r d] lse[b g r t]", "s d">,
       .inputs = {kFormat, kFormat, kFormat, kI32},
       .outputs = {kFormat, kF32},
       .numbers = {"scale"},
       .gradient =
           [](GradBuilder& g) {
             std::vector<ValueId> gradients =
                 g.node("attention_padded_grad",
                        {g.dy(), g.in(0), g.in(1), g.in(2), g.out(0), g.out(1), g.in(3)}, g.attrs());
             gradients.push_back(kNoValue);
             return gradients;
           },
       .flops = [](const OpInstance&, const IndexRule& r) { return products(r, 2, 1); },
       .heads = "g"});
  table.add({.name = "attention_padded_grad",
             .index = written<"do[b t g r d] q[b t g r d] k[b s g d] v[b s g d] o[b t g r d] lse[b g r t] "
                              "lengths[b] -> dq[b t g r d] dk[b s g d] dv[b s g d]",
                              "s d">,
             .inputs = {kFormat, kFormat, kFormat, kFormat, kFormat, kF32, kI32},
             .numbers = {"scale"},
             .gradient = kBackwardOp,
             .flops = [](const OpInstance&, const IndexRule& r) { return products(r, 5, 1); },
             .heads = "g"});
  // Each of n lines has the keys and values of a whole sequence, of which so far only the first are known.
  table.add(
      {.name = "attention_at",
       .index = written<"q[b t g r d] k[n s g d] v[n s g d] line[b] position[b] -> o[b t g r d]", "n t s d">,
       .inputs = {kFormat, kFormat, kFormat, kI32, kI32},
       .numbers = {"scale"},
       .gradient = kGeneratingOp,
       .flops = [](const OpInstance& op, const IndexRule& r) {
         return products(r, 2, 1.0 / static_cast<double>(op.shape(1)[0]));
       }});
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
