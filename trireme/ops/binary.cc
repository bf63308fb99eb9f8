// Element-wise ops of two inputs, the second being a suffix of the first (a bias, a scalar), and select.
#include <algorithm>

#include "trireme/ops/records.h"

namespace trireme {
namespace {

IndexRule suffix(const OpInstance& op) {
  return rule(op, "a[b… s…] b[s…] -> y[b… s…]"_rule);
}

void add_binary(OpTable& table, std::string_view name, GradientRule gradient,
                bool (*linear)(const OpInstance&) = nullptr) {
  table.add(
      {.name = name, .index = suffix, .gradient = gradient, .in_place = {{0, 0}, {0, 1}}, .linear = linear});
}

}  // namespace

void add_binary(OpTable& table) {
  using G = GradBuilder;
  add_binary(
      table, "add",
      [](G& g) {
        return std::vector{g.dy(), g.wants(1) ? sum_to_suffix(g, g.dy(), g.in(1)) : kNoValue};
      },
      always_linear);
  add_binary(
      table, "sub",
      [](G& g) {
        return std::vector{g.dy(), g.wants(1) ? sum_to_suffix(g, g.op("neg", {g.dy()}), g.in(1)) : kNoValue};
      },
      always_linear);
  add_binary(table, "mul", [](G& g) {
    return std::vector{g.wants(0) ? g.op("mul", {g.dy(), g.in(1)}) : kNoValue,
                       g.wants(1) ? sum_to_suffix(g, g.op("mul", {g.dy(), g.in(0)}), g.in(1)) : kNoValue};
  });
  add_binary(table, "div", [](G& g) {  // db = −dy·y / b
    return std::vector{
        g.wants(0) ? g.op("div", {g.dy(), g.in(1)}) : kNoValue,
        g.wants(1) ? sum_to_suffix(g, g.op("neg", {g.op("div", {g.op("mul", {g.dy(), g.out(0)}), g.in(1)})}),
                                   g.in(1))
                   : kNoValue};
  });
  table.add({.name = "compare",
             .index =
                 [](const OpInstance& op) {
                   constexpr std::string_view kKinds[] = {"lt", "le", "gt", "ge", "eq", "ne"};
                   const std::string& kind = op.attrs.text("kind");
                   if (std::ranges::find(kKinds, kind) == std::end(kKinds))
                     throw_error("[compare] kind is '{}'; lt, le, gt, ge, eq or ne expected", kind);
                   return suffix(op);
                 },
             .outputs = {DTypeRule::kU8},
             .gradient = NotDifferentiable{"the result is a truth value"}});
  table.add({.name = "select",
             .index = written<"c[i…] a[i…] b[i…] -> y[i…]">,
             .inputs = {DTypeRule::kU8},
             .gradient =
                 [](G& g) {
                   const ValueId zero = g.op("affine", {g.dy()}, {{"scale", 0.0}});
                   return std::vector{kNoValue, g.op("select", {g.in(0), g.dy(), zero}),
                                      g.op("select", {g.in(0), zero, g.dy()})};
                 },
             .in_place = {{0, 1}, {0, 2}}});
}

}  // namespace trireme
