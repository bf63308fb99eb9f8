// Products of rows in the slots of experts, of which the first `used` of a group have a token: the others are
// neither read nor computed. What is made of them is zero, as if their rows were.
#include <cmath>

#include "trireme/ops/records.h"
#include "trireme/ops/substitute.h"

namespace trireme {
namespace slot_products_of {
namespace {

// The rows that are used on average in the c slots of an expert in a group: what FLOPs are counted for.
double expected_used(const OpInstance& op, const IndexRule& rule) {
  double slots = 0;
  for (const Index& index : rule.indices) {
    if (index.name == "c") slots = static_cast<double>(index.extent);
  }
  return std::min(slots, op.attrs.real("rows", slots));
}

void check_rows(const OpInstance& op) {
  const double rows = op.attrs.real("rows", 0);
  if (!std::isfinite(rows) || rows < 0)
    throw_error("[{}] rows is {}, a number that is not negative expected", op.op, rows);
}

double used_multiply_adds(const OpInstance& op, const IndexRule& rule) {
  double product = 2;
  for (const Index& index : rule.indices) {
    if (index.name != "c") product *= static_cast<double>(index.extent);
  }
  return product * expected_used(op, rule);
}

IndexRule slots_product_rule(const OpInstance& op) {
  check_rows(op);
  return (op.attrs.integer("transpose_b", 0) != 0
              ? rule(op, "x[e g c m] w[e n m] used[e g] -> y[e g c n]"_rule)
              : rule(op, "x[e g c m] w[e m n] used[e g] -> y[e g c n]"_rule))
      .whole("c");
}

IndexRule slots_weight_rule(const OpInstance& op) {
  check_rows(op);
  return rule(op, "x[e g c m] dy[e g c n] used[e g] -> dw[e m n]"_rule).whole("c");
}

std::vector<ValueId> slots_product_gradient(GradBuilder& g) {
  const bool transposed = g.attrs().integer("transpose_b", 0) != 0;
  Attrs rows;
  if (g.attrs().has("rows")) rows.set("rows", g.attrs().real("rows"));
  Attrs back = rows;
  if (!transposed) back.set("transpose_b", int64_t{1});
  const ValueId x = g.in(0), dy = g.dy(), used = g.in(2);
  return {g.wants(0) ? g.op("matmul_slots", {dy, g.in(1), used}, back) : kNoValue,
          g.wants(1) ? g.op("matmul_slots_grad_weight",
                            transposed ? std::vector{dy, x, used} : std::vector{x, dy, used}, rows)
                     : kNoValue,
          kNoValue};
}

// One batched product of all slots.
std::vector<ValueId> product_of_all(Builder& b, const std::vector<ValueId>& inputs, const Attrs& attrs,
                                    const std::string& name) {
  const Shape x = b.shape(inputs[0]);
  const auto reshaped = [&](ValueId value, const std::vector<int64_t>& shape, const std::string& its_name) {
    return b.op("reshape", {value}, {{"shape", shape}}, its_name);
  };
  Attrs product;
  if (attrs.integer("transpose_b", 0) != 0) product.set("transpose_b", int64_t{1});
  const ValueId rows = reshaped(inputs[0], {x[0], x[1] * x[2], x[3]}, name + ".rows");
  const ValueId y = b.op("matmul", {rows, inputs[1]}, product, name + ".product");
  return {reshaped(y, {x[0], x[1], x[2], b.shape(y).back()}, name)};
}

}  // namespace
}  // namespace slot_products_of

Substitute substitute_of(std::string_view op) {
  return op == "matmul_slots" ? slot_products_of::product_of_all : nullptr;
}

void add_matmul_slots(OpTable& table) {
  using namespace slot_products_of;
  using enum DTypeRule;
  table.add({.name = "matmul_slots",
             .index = slots_product_rule,
             .inputs = {kFormat, kFormat, kI32},
             .gradient = slots_product_gradient,
             .flops = used_multiply_adds});
  table.add({.name = "matmul_slots_grad_weight",
             .index = slots_weight_rule,
             .inputs = {kFormat, kFormat, kI32},
             .gradient = kBackwardOp,
             .flops = used_multiply_adds});
}

}  // namespace trireme
