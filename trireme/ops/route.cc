// Who computes what in a mixture of experts: each token's k experts with their weights, the slots that the
// experts have for tokens, and the losses that keep routers balanced. Integers and f32 throughout, whatever
// the precision: a choice that rounding turns over changes a whole expert.
#include <cmath>

#include "trireme/ops/records.h"

namespace trireme {
namespace routing {
namespace {

void check_scores(const OpInstance& op) {
  if (const std::string_view scores = op.attrs.text("scores", "softmax");
      scores != "softmax" && scores != "sigmoid")
    throw_error("[{}] scores is '{}'; softmax or sigmoid expected", op.op, scores);
}

int64_t checked(const OpInstance& op, std::string_view name, int64_t value, int64_t least, int64_t most) {
  if (value < least || value > most)
    throw_error("[{}] {} is {}, {} to {} expected", op.op, name, value, least, most);
  return value;
}

IndexRule route_rule(const OpInstance& op) {
  check_scores(op);
  const bool bias = op.inputs.size() == 2;
  const int64_t k = checked(op, "k", op.attrs.integer("k"), 1, kMaxElements);
  IndexRule result = (bias ? rule(op, "z[b… e] bias[e] -> w[b… k] id[b… k]"_rule)
                           : rule(op, "z[b… e] -> w[b… k] id[b… k]"_rule))
                         .whole("e k")
                         .size("k", k);
  const int64_t experts = checked(op, "the number of experts", op.shape(0).back(), k, int64_t{1} << 20);
  const int64_t groups = checked(op, "expert_groups", op.attrs.integer("expert_groups", 1), 1, experts);
  const int64_t top = checked(op, "top_groups", op.attrs.integer("top_groups", 1), 1, groups);
  if (experts % groups != 0 || k > top * (experts / groups))
    throw_error("[route] {} of {} groups of experts are chosen, in which {} of {} experts do not lie", top,
                groups, k, experts);
  if (const double scale = op.attrs.real("scale", 1); !(scale > 0) || !std::isfinite(scale))
    throw_error("[route] scale is {}, a positive number expected", scale);
  return result;
}

IndexRule slots_rule(const OpInstance& op) {
  const int64_t experts = checked(op, "experts", op.attrs.integer("experts"), 1, int64_t{1} << 20);
  const int64_t capacity = checked(op, "capacity", op.attrs.integer("capacity"), 1, int64_t{1} << 30);
  if (experts * capacity > int64_t{1} << 30)
    throw_error("[slots] {} experts with {} slots each; at most 2^30 slots expected", experts, capacity);
  if (const std::string_view order = op.attrs.text("order", "token"); order != "token" && order != "choice")
    throw_error("[slots] order is '{}'; token or choice expected", order);
  const bool drawn = op.inputs.size() == 3;
  IndexRule result =
      (drawn ? rule(op, "id[g s k] w[g s k] rng[n] -> at[g s k] count[g k e] load[e] dropped[]"_rule)
             : rule(op, "id[g s k] -> at[g s k] count[g k e] load[e] dropped[]"_rule))
          .whole("s k e n")
          .size("e", experts);
  if (!drawn) return result;
  op.attrs.integer("stream");
  if (op.shape(2).elements() != 2)
    throw_error("[slots] rng is {}, two integers expected", to_string(op.inputs[2]));
  return result;
}

// Random numbers are those of elements of the whole tensor.
void localize_slots(Attrs& attrs, const IndexRule& rule, int index, int64_t begin, int64_t) {
  if (rule.indices[index].name != "g" || !attrs.has("stream")) return;
  int64_t group = 1;
  for (const Index& other : rule.indices) {
    if (other.name == "s" || other.name == "k") group *= other.extent;
  }
  attrs.set("offset", attrs.integer("offset", 0) + begin * group);
}

void check_balance(const OpInstance& op, int count) {
  check_scores(op);
  if (op.shape(count).rank() == 3)
    checked(op, "choices", op.attrs.integer("choices", op.shape(count)[1]), 1, op.shape(count)[1]);
}

}  // namespace
}  // namespace routing

void add_route(OpTable& table) {
  using namespace routing;
  using enum DTypeRule;
  table.add({.name = "route",
             .index = route_rule,
             .inputs = {kF32, kF32},
             .outputs = {kF32, kI32},
             .numbers = {"k"},
             .gradient =
                 [](GradBuilder& g) {
                   std::vector<ValueId> gradients(static_cast<size_t>(g.inputs()), kNoValue);
                   gradients[0] = g.op("route_grad", {g.dy(), g.in(0), g.out(1)}, g.attrs());
                   return gradients;
                 },
             .flops = flops_per_element<8>});
  table.add({.name = "route_grad",
             .index =
                 [](const OpInstance& op) {
                   check_scores(op);
                   return rule(op, "dw[b… k] z[b… e] id[b… k] -> dz[b… e]"_rule).whole("k e");
                 },
             .inputs = {kF32, kF32, kI32},
             .outputs = {kF32},
             .gradient = kBackwardOp,
             .flops = flops_per_element<8, 1>});
  table.add({.name = "slots",
             .index = slots_rule,
             .inputs = {kI32, kF32, kI64},
             .outputs = {kI32, kI32, kF32, kF32},
             .numbers = {"experts", "capacity"},
             .gradient = NotDifferentiable{"the results are places and counts, which move in steps"},
             .localize = localize_slots});
  table.add({.name = "balance",
             .index =
                 [](const OpInstance& op) {
                   IndexRule result =
                       rule(op, "z[g s e] count[g k e] -> loss[] importance[e] lse[]"_rule).whole("s k e");
                   check_balance(op, 1);
                   return result;
                 },
             .inputs = {kF32, kI32},
             .outputs = {kF32, kF32, kF32},
             .numbers = {"alpha", "z"},
             .gradient =
                 [](GradBuilder& g) {
                   return std::vector{g.op("balance_grad", {g.dy(), g.in(0), g.in(1)}, g.attrs()), kNoValue};
                 },
             .flops = flops_per_element<8>});
  table.add({.name = "balance_grad",
             .index =
                 [](const OpInstance& op) {
                   IndexRule result =
                       rule(op, "dloss[] z[g s e] count[g k e] -> dz[g s e]"_rule).whole("s k e");
                   check_balance(op, 2);
                   return result;
                 },
             .inputs = {kF32, kF32, kI32},
             .outputs = {kF32},
             .numbers = {"alpha", "z"},
             .gradient = kBackwardOp,
             .flops = flops_per_element<8, 1>});
}

}  // namespace trireme
