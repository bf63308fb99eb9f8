// Matrix product, batched, of possibly transposed operands; epilogues are put on by the fuse pass.
#include <numeric>

#include "trireme/ops/records.h"

namespace trireme {
namespace {

struct Form {
  bool ta, tb, shared, bias, residual, pre;  // shared: one b for all batches
};

// The forms that there are, each read once.
const WrittenRule& written_rule(const Form& form) {
  static const std::vector<WrittenRule> rules = [] {
    std::vector<WrittenRule> all;
    for (int n = 0; n < 64; ++n) {
      const auto has = [&](int bit) { return (n >> bit & 1) != 0; };
      all.emplace_back(fmt::format("a[b… {}] b[{}{}]{}{} -> y[b… m n]{}", has(0) ? "k m" : "m k",
                                   has(2) ? "" : "b… ", has(1) ? "n k" : "k n", has(3) ? " bias[n]" : "",
                                   has(4) ? " residual[b… m n]" : "", has(5) ? " pre[b… m n]" : ""));
    }
    return all;
  }();
  return rules[form.ta + 2 * form.tb + 4 * form.shared + 8 * form.bias + 16 * form.residual + 32 * form.pre];
}

IndexRule matmul_rule(const OpInstance& op) {
  const std::string_view epilogue = op.attrs.text("epilogue", "none");
  const bool bias = epilogue == "bias" || epilogue == "bias_gelu" || epilogue == "bias_residual";
  const bool residual = epilogue == "residual" || epilogue == "bias_residual";
  if (!bias && !residual && epilogue != "none") throw_error("[matmul] epilogue '{}' is not known", epilogue);
  const bool ta = op.attrs.integer("transpose_a", 0) != 0, tb = op.attrs.integer("transpose_b", 0) != 0;
  const bool shared = op.inputs.size() > 1 && op.shape(1).rank() == 2;
  IndexRule result = rule(op, written_rule({ta, tb, shared, bias, residual, epilogue == "bias_gelu"}));
  // A split sum would add the bias or the residual once per part.
  if (epilogue != "none") result.whole("k");
  return result;
}

double multiply_adds(const OpInstance&, const IndexRule& rule) {
  return 2.0 * rule.volume();
}

ValueId transposed(GradBuilder& g, ValueId value) {
  std::vector<int64_t> perm(g.shape(value).rank());
  std::iota(perm.begin(), perm.end(), int64_t{0});
  std::swap(perm[perm.size() - 2], perm[perm.size() - 1]);
  return g.op("transpose", {value}, {{"perm", perm}});
}

// The batch dims join the rows.
ValueId rows(GradBuilder& g, ValueId value) {
  const Shape& shape = g.shape(value);
  return g.op("reshape", {value},
              {{"shape", std::vector<int64_t>{shape.elements(0, shape.rank() - 1), shape.back()}}});
}

// Y = op(A)·op(B): each gradient is again a product of two of A, B and dY.
std::vector<ValueId> matmul_gradient(GradBuilder& g) {
  const bool ta = g.attrs().integer("transpose_a", 0) != 0, tb = g.attrs().integer("transpose_b", 0) != 0;
  const auto product = [&](ValueId a, ValueId b, bool transpose_a, bool transpose_b) {
    Attrs attrs;
    if (transpose_a) attrs.set("transpose_a", int64_t{1});
    if (transpose_b) attrs.set("transpose_b", int64_t{1});
    return g.op("matmul", {a, b}, attrs);
  };
  const ValueId a = g.in(0), b = g.in(1), dy = g.dy();
  ValueId da = kNoValue, db = kNoValue;
  if (g.shape(b).rank() == 2 && g.shape(a).rank() > 2) {
    // A weight shared by the batch collects from all of it. A batch of transposed matrices is no matrix of
    // rows, and B cannot come first where it is shared, so such an A is transposed beforehand.
    if (g.wants(0)) {
      da = product(dy, b, false, !tb);
      if (ta) da = transposed(g, da);
    }
    if (g.wants(1)) {
      const ValueId a_rows = rows(g, ta ? transposed(g, a) : a), dy_rows = rows(g, dy);
      db = tb ? product(dy_rows, a_rows, true, false) : product(a_rows, dy_rows, true, false);
    }
    return {da, db};
  }
  if (g.wants(0)) da = ta ? product(b, dy, tb, true) : product(dy, b, false, !tb);
  if (g.wants(1)) db = tb ? product(dy, a, true, ta) : product(a, dy, !ta, false);
  return {da, db};
}

}  // namespace

void add_matmul(OpTable& table) {
  table.add({.name = "matmul_to_f32",
             .index =
                 [](const OpInstance& op) {
                   const std::string_view epilogue = op.attrs.text("epilogue", "none");
                   if (epilogue != "none" && epilogue != "residual")
                     throw_error("[matmul_to_f32] epilogue '{}' is not known; none or residual expected",
                                 epilogue);
                   return matmul_rule(op);
                 },
             .inputs = {DTypeRule::kFormat, DTypeRule::kFormat, DTypeRule::kF32},
             .outputs = {DTypeRule::kF32},
             .gradient = kDeviceOp,
             .flops = multiply_adds,
             .in_place = {{0, 2}}});
  table.add({.name = "matmul_gelu_grad",
             .index =
                 [](const OpInstance& op) {
                   const bool ta = op.attrs.integer("transpose_a", 0) != 0,
                              tb = op.attrs.integer("transpose_b", 0) != 0;
                   const bool shared = op.inputs.size() > 1 && op.shape(1).rank() == 2;
                   return rule(op, written_rule({.ta = ta, .tb = tb, .shared = shared, .residual = true}))
                       .whole("k");
                 },
             .gradient = kFusedOp,
             .flops = multiply_adds});
  // In f32 whatever the precision: of routers, whose choices rounding would turn over.
  table.add({.name = "matmul_f32",
             .index =
                 [](const OpInstance& op) {
                   if (op.attrs.has("epilogue")) throw_error("[matmul_f32] has no epilogue");
                   return matmul_rule(op);
                 },
             .inputs = {DTypeRule::kF32, DTypeRule::kF32},
             .outputs = {DTypeRule::kF32},
             .gradient = matmul_gradient,
             .flops = multiply_adds});
  table.add({.name = "matmul",
             .index = matmul_rule,
             .gradient =
                 [](GradBuilder& g) {
                   if (g.attrs().text("epilogue", "none") != "none")
                     throw_error("[matmul] an epilogue is {}", kFusedOp.reason);
                   return matmul_gradient(g);
                 },
             .flops = multiply_adds});
}

}  // namespace trireme
