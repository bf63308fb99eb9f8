// Softmax attention that never holds the matrix of scores. g groups of key/value heads, each shared by r
// query heads; r = 1 is ordinary multi-head attention. Queries may be a part of a sequence, of which keys and
// values are whole: one run of it, or pieces.
#include <algorithm>

#include "trireme/ir/pieces.h"
#include "trireme/ir/ring_builder.h"
#include "trireme/ops/records.h"

namespace trireme {
namespace {

using enum DTypeRule;

// The share of keys that queries see. Of all queries of a sequence about half; of a part of them as many more
// as it comes later: keys as far as the mean position.
double share_seen(const OpInstance& op, const Shape& q, const Shape& k) {
  if (!op.attrs.integer("causal", 0)) return 1;
  if (!op.attrs.has("offset") || k[1] == 0) return 0.5;
  const Positions at(op.attrs, q[1], op.attrs.integer("offset"));
  if (has_key_pieces(op.attrs)) {
    const Positions keys = Positions::of_keys(op.attrs, k[1]);
    double seen = 0;
    for (int64_t t = 0; t < q[1]; ++t) seen += static_cast<double>(std::min(keys.before(at[t] + 1), k[1]));
    return q[1] == 0 ? 0 : seen / static_cast<double>(q[1]) / static_cast<double>(k[1]);
  }
  const double pieces = static_cast<double>(q[1] / at.run);
  const double mean = static_cast<double>(at.first) + (pieces - 1) / 2 * static_cast<double>(at.stride) +
                      (static_cast<double>(at.run) - 1) / 2;
  return std::clamp((mean + 1) / static_cast<double>(k[1]), 0.0, 1.0);
}

// Queries that are pieces of a sequence already are not cut further.
template <RuleText kRule>
IndexRule of_sequence(const OpInstance& op) {
  IndexRule result = written<kRule, "s d">(op);
  check_pieces(op, 1);
  return has_pieces(op.attrs) ? result.whole("t") : result;
}

// One rank's queries against the keys of one rank, in a ring.
template <RuleText kRule>
IndexRule of_parts(const OpInstance& op) {
  IndexRule result = written<kRule, "t s d">(op);
  check_pieces(op, 1);
  for (const Index& index : result.indices) {
    if (index.name == "s") check_key_pieces(op, index.extent);
  }
  return result;
}

// The op's attributes for the keys of one rank.
Attrs with_keys_of(const RingBuilder& r, int64_t rank) {
  Attrs attrs = r.attrs();
  const RingBuilder::Cut part = r.part_of_rank(rank);
  attrs.set("key_offset", part.begin);
  attrs.set("key_pieces", part.pieces);
  attrs.set("key_stride", part.stride);
  return attrs;
}

// A step for the keys and values of each rank, from this one's backwards. Softmaxes over parts of the keys
// are merged by the logarithms of their sums.
std::vector<ValueId> ring_attention(RingBuilder& r) {
  ValueId k = r.in(1), v = r.in(2);
  std::vector<ValueId> merged;
  for (int64_t step = 0; step < r.ranks(); ++step) {
    const bool last = step + 1 == r.ranks();
    const ValueId next_k = last ? k : r.shifted(k, "keys"), next_v = last ? v : r.shifted(v, "values");
    std::vector<ValueId> of_part =
        r.node("attention_part", {r.in(0), k, v}, with_keys_of(r, r.rank_before(step)), "part");
    if (step > 0)
      of_part = r.node("attention_merge", {merged[0], merged[1], of_part[0], of_part[1]}, {}, "merged");
    merged = std::move(of_part);
    k = next_k;
    v = next_v;
  }
  return {r.result(0, merged[0]), merged[1]};
}

// P is exp(scores − lse) with the lse of all keys, so what parts of the keys give adds up. Keys travel one
// rank ahead of their gradients, which come to rest where the keys are from.
std::vector<ValueId> ring_attention_grad(RingBuilder& r) {
  ValueId k = r.shifted(r.in(2), "keys"), v = r.shifted(r.in(3), "values"), dq = kNoValue, dk = kNoValue,
          dv = kNoValue;
  for (int64_t step = 1; step <= r.ranks(); ++step) {
    const bool own_next = step + 1 >= r.ranks();
    const ValueId next_k = own_next ? r.in(2) : r.shifted(k, "keys"),
                  next_v = own_next ? r.in(3) : r.shifted(v, "values");
    const std::vector<ValueId> of_part =
        r.node("attention_part_grad", {r.in(0), r.in(1), k, v, r.in(4), r.in(5)},
               with_keys_of(r, r.rank_before(step)), "part");
    const auto added = [&](ValueId sum, ValueId addend, std::string_view what) {
      return sum == kNoValue ? addend : r.node("add", {sum, addend}, {}, what)[0];
    };
    dq = added(dq, of_part[0], "dq");
    dk = added(dk, of_part[1], "dk");
    dv = added(dv, of_part[2], "dv");
    if (step == r.ranks()) break;
    dk = r.shifted(dk, "dk");
    dv = r.shifted(dv, "dv");
    k = next_k;
    v = next_v;
  }
  return {r.result(0, dq), r.result(1, dk), r.result(2, dv)};
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
       .index = of_sequence<"q[b t g r d] k[b s g d] v[b s g d] -> o[b t g r d] lse[b g r t]">,
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
       .localizes = OpRecord::Localizes::kPieces,
       .heads = "g",
       .ring = {.travels = {1, 2}, .make = ring_attention}});
  table.add(
      {.name = "attention_grad",
       .index = of_sequence<"do[b t g r d] q[b t g r d] k[b s g d] v[b s g d] o[b t g r d] lse[b g r t] "
                            "-> dq[b t g r d] dk[b s g d] dv[b s g d]">,
       .inputs = {kFormat, kFormat, kFormat, kFormat, kFormat, kF32},
       .numbers = {"scale"},
       .gradient = kBackwardOp,
       .flops = [](const OpInstance& op,
                   const IndexRule& r) { return products(r, 5, share_seen(op, op.shape(1), op.shape(2))); },
       .localize = localize_queries,
       .localizes = OpRecord::Localizes::kPieces,
       .heads = "g",
       .ring = {.travels = {2, 3}, .returns = {1, 2}, .make = ring_attention_grad}});
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
  // Results of a ring's parts are put together in f32, whatever the inputs' format.
  table.add(
      {.name = "attention_part",
       .index = of_parts<"q[b t g r d] k[b s g d] v[b s g d] -> o[b t g r d] lse[b g r t]">,
       .outputs = {kF32, kF32},
       .numbers = {"scale"},
       .gradient = kRingOp,
       .flops = [](const OpInstance& op,
                   const IndexRule& r) { return products(r, 2, share_seen(op, op.shape(0), op.shape(1))); },
       .timed_as = "attention"});
  table.add(
      {.name = "attention_part_grad",
       .index = of_parts<"do[b t g r d] q[b t g r d] k[b s g d] v[b s g d] o[b t g r d] lse[b g r t] "
                         "-> dq[b t g r d] dk[b s g d] dv[b s g d]">,
       .inputs = {kFormat, kFormat, kFormat, kFormat, kFormat, kF32},
       .outputs = {kF32, kF32, kF32},
       .numbers = {"scale"},
       .gradient = kRingOp,
       .flops = [](const OpInstance& op,
                   const IndexRule& r) { return products(r, 5, share_seen(op, op.shape(1), op.shape(2))); },
       .timed_as = "attention_grad"});
  // Of two disjoint sets of keys, each with the logarithm of its sum, that of both. −∞: of no keys.
  table.add({.name = "attention_merge",
             .index = written<"o1[b t g r d] lse1[b g r t] o2[b t g r d] lse2[b g r t] "
                              "-> o[b t g r d] lse[b g r t]",
                              "d">,
             .inputs = {kF32, kF32, kF32, kF32},
             .outputs = {kF32, kF32},
             .gradient = kRingOp,
             .flops = flops_per_element<3>,
             .in_place = {{0, 0}, {1, 1}}});
  // Each of n lines has the keys and values of a whole sequence, of which so far only the first are known.
  table.add({.name = "attention_at",
             .index =
                 [](const OpInstance& op) {
                   check_pieces(op, 1);
                   return written<"q[b t g r d] k[n s g d] v[n s g d] line[b] position[b] -> o[b t g r d]",
                                  "n t s d">(op);
                 },
             .inputs = {kFormat, kFormat, kFormat, kI32, kI32},
             .numbers = {"scale"},
             .gradient = kGeneratingOp,
             .flops =
                 [](const OpInstance& op, const IndexRule& r) {
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
