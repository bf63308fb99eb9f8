// Element-wise ops of one input, and the gradients of those that are cheaper fused than composed.
#include "trireme/ops/records.h"

namespace trireme {
namespace {

IndexRule one_to_one(const OpInstance& op) {
  return rule(op, "x[i…] -> y[i…]"_rule);
}
IndexRule two_to_one(const OpInstance& op) {
  return rule(op, "dy[i…] x[i…] -> dx[i…]"_rule);
}

void add_unary(OpTable& table, std::string_view name, GradientRule gradient,
               bool (*linear)(const OpInstance&) = nullptr) {
  table.add(
      {.name = name, .index = one_to_one, .gradient = gradient, .in_place = {{0, 0}}, .linear = linear});
}
void add_grad(OpTable& table, std::string_view name) {
  table.add({.name = name, .index = two_to_one, .gradient = kBackwardOp, .in_place = {{0, 0}, {0, 1}}});
}

DType cast_target(const OpInstance& op) {
  const std::string& to = op.attrs.text("to");
  const std::optional<DType> dtype = parse_dtype(to);
  if (!dtype || !is_float(*dtype))
    throw_error("[cast] '{}' is no format of real numbers; f32, bf16, f16 or f64 expected", to);
  return *dtype;
}

}  // namespace

void add_unary(OpTable& table) {
  using G = GradBuilder;
  add_unary(
      table, "neg", [](G& g) { return std::vector{g.op("neg", {g.dy()})}; }, always_linear);
  add_unary(table, "exp", [](G& g) { return std::vector{g.op("mul", {g.dy(), g.out(0)})}; });
  add_unary(table, "log", [](G& g) { return std::vector{g.op("div", {g.dy(), g.in(0)})}; });
  add_unary(table, "sqrt", [](G& g) {  // dx = dy / 2y
    return std::vector{g.op("div", {g.dy(), g.op("affine", {g.out(0)}, {{"scale", 2.0}})})};
  });
  add_unary(table, "rsqrt", [](G& g) {  // dx = −dy·y³/2
    const ValueId y = g.out(0);
    const ValueId cube = g.op("mul", {g.op("mul", {y, y}), y});
    return std::vector{g.op("mul", {cube, g.op("affine", {g.dy()}, {{"scale", -0.5}})})};
  });
  add_unary(table, "tanh", [](G& g) { return std::vector{g.op("tanh_grad", {g.dy(), g.out(0)})}; });
  add_unary(table, "sigmoid", [](G& g) { return std::vector{g.op("sigmoid_grad", {g.dy(), g.out(0)})}; });
  add_unary(table, "erf", [](G& g) {  // dx = dy·e^(−x²)·2/√π
    const ValueId square = g.op("mul", {g.in(0), g.in(0)});
    const ValueId bell = g.op("exp", {g.op("neg", {square})});
    return std::vector{g.op("mul", {g.dy(), g.op("affine", {bell}, {{"scale", 1.1283791670955126}})})};
  });
  add_unary(table, "relu", [](G& g) { return std::vector{g.op("relu_grad", {g.dy(), g.out(0)})}; });
  add_unary(table, "gelu", [](G& g) { return std::vector{g.op("gelu_grad", {g.dy(), g.in(0)})}; });
  add_unary(table, "silu", [](G& g) { return std::vector{g.op("silu_grad", {g.dy(), g.in(0)})}; });
  add_unary(
      table, "affine",
      [](G& g) {
        return std::vector{g.op("affine", {g.dy()}, {{"scale", g.attrs().real("scale", 1.0)}})};
      },
      [](const OpInstance& op) { return op.attrs.real("shift", 0.0) == 0; });
  for (std::string_view name : {"tanh_grad", "sigmoid_grad", "relu_grad", "gelu_grad", "silu_grad"})
    add_grad(table, name);

  table.add(
      {.name = "cast",
       .index = one_to_one,
       .inputs = {DTypeRule::kAny},
       .output_dtype = cast_target,
       .gradient =
           [](G& g) {
             const DType from = g.builder().type(g.in(0)).dtype;  // integers have no gradient
             return std::vector{is_float(from) ? g.op("cast", {g.dy()}, {{"to", std::string(name(from))}})
                                               : kNoValue};
           },
       // Parts are not rounded before they are added.
       .linear =
           [](const OpInstance& op) { return size_of(cast_target(op)) >= size_of(op.inputs[0].dtype); }});
}

}  // namespace trireme
