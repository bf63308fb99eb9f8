// Tokens to the slots of experts, and back. `at` has for each of a token's choices the slot among those of
// all experts, expert by expert; −1, like a slot of another rank's experts, adds nothing. So parts of the
// experts add up, as parts of an embedding's table do.
#include "trireme/ops/records.h"

namespace trireme {
namespace expert_slots {
namespace {

// Each is the other's gradient: slots are places of rows, with a weight or without.
std::vector<ValueId> gradients_of(GradBuilder& g, std::string_view back, const Attrs& attrs, ValueId tokens,
                                  ValueId slots) {
  std::vector<ValueId> inputs = {g.dy(), g.in(1)};
  if (g.inputs() == 3) inputs.push_back(g.in(2));
  const Attrs products{{"expert_offset", g.attrs().integer("expert_offset", 0)}};
  std::vector<ValueId> result = {g.wants(0) ? g.op(back, inputs, attrs) : kNoValue, kNoValue};
  if (g.inputs() == 3)
    result.push_back(g.wants(2) ? g.op("slot_products", {tokens, slots, g.in(1)}, products) : kNoValue);
  return result;
}

void check_slots(const OpInstance& op) {
  const int64_t experts = op.attrs.integer("experts"), capacity = op.attrs.integer("capacity");
  if (experts < 0 || capacity < 0 || experts > kMaxElements || capacity > kMaxElements)
    throw_error("[{}] {} experts with {} slots each; 0 to 2^48 of both expected", op.op, experts, capacity);
}

IndexRule dispatch_rule(const OpInstance& op) {
  check_slots(op);
  return (op.inputs.size() == 3 ? rule(op, "x[g s m] at[g s k] w[g s k] -> d[e g c m]"_rule)
                                : rule(op, "x[g s m] at[g s k] -> d[e g c m]"_rule))
      .whole("s k c")
      .size("e", op.attrs.integer("experts"))
      .size("c", op.attrs.integer("capacity"));
}

IndexRule used_rule(const OpInstance& op) {
  check_slots(op);
  return rule(op, "at[g s k] -> used[e g]"_rule).whole("s k").size("e", op.attrs.integer("experts"));
}

IndexRule combine_rule(const OpInstance& op) {
  return (op.inputs.size() == 3 ? rule(op, "d[e g c m] at[g s k] w[g s k] -> y[g s m]"_rule)
                                : rule(op, "d[e g c m] at[g s k] -> y[g s m]"_rule))
      .whole("k c");
}

void localize(Attrs& attrs, const IndexRule& rule, int index, int64_t begin, int64_t end) {
  if (rule.indices[index].name != "e") return;
  attrs.set("expert_offset", attrs.integer("expert_offset", 0) + begin);
  if (attrs.has("experts")) attrs.set("experts", end - begin);
}

// Of the k rows that each token has, whatever the slots are.
double row_flops(const OpInstance& op, const IndexRule& rule) {
  double product = 2;
  for (const Index& index : rule.indices) {
    if (index.name != "e" && index.name != "c") product *= static_cast<double>(index.extent);
  }
  return op.inputs.size() == 3 ? product : product / 2;
}

}  // namespace
}  // namespace expert_slots

void add_dispatch(OpTable& table) {
  using namespace expert_slots;
  using enum DTypeRule;
  table.add({.name = "dispatch",
             .index = dispatch_rule,
             .inputs = {kFormat, kI32, kF32},
             .numbers = {"experts", "capacity"},
             .gradient =
                 [](GradBuilder& g) {
                   return gradients_of(g, "combine",
                                       {{"expert_offset", g.attrs().integer("expert_offset", 0)}}, g.in(0),
                                       g.dy());
                 },
             .flops = row_flops,
             .localize = localize});
  table.add({.name = "combine",
             .index = combine_rule,
             .inputs = {kFormat, kI32, kF32},
             .gradient =
                 [](GradBuilder& g) {
                   const Shape& slots = g.shape(g.in(0));
                   return gradients_of(g, "dispatch",
                                       {{"experts", slots[0]},
                                        {"capacity", slots[2]},
                                        {"expert_offset", g.attrs().integer("expert_offset", 0)}},
                                       g.dy(), g.in(0));
                 },
             .flops = row_flops,
             .localize = localize});
  table.add({.name = "slots_used",
             .index = used_rule,
             .inputs = {kI32},
             .outputs = {kI32},
             .numbers = {"experts", "capacity"},
             .gradient = NotDifferentiable{"the results are counts, which move in steps"},
             .localize = localize});
  table.add({.name = "slot_products",
             .index = written<"x[g s m] d[e g c m] at[g s k] -> p[g s k]", "k c">,
             .inputs = {kFormat, kFormat, kI32},
             .outputs = {kF32},
             .gradient = kBackwardOp,
             .flops = row_flops,
             .localize = localize});
}

}  // namespace trireme
