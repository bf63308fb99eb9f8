// Matrix product, batched, of possibly transposed operands; epilogues are put on by the fuse pass.
#include "trireme/ops/records.h"

namespace trireme {
namespace {

IndexRule matmul_rule(const OpInstance& op) {
  const std::string_view epilogue = op.attrs.text("epilogue", "none");
  const bool bias = epilogue == "bias" || epilogue == "bias_gelu" || epilogue == "bias_residual";
  const bool residual = epilogue == "residual" || epilogue == "bias_residual";
  if (!bias && !residual && epilogue != "none") throw_error("[matmul] epilogue '{}' is not known", epilogue);
  const bool ta = op.attrs.integer("transpose_a", 0) != 0, tb = op.attrs.integer("transpose_b", 0) != 0;
  const bool shared = op.inputs.size() > 1 && op.shape(1).rank() == 2;
  if (ta && shared && op.shape(0).rank() > 2) {
    throw_error("[matmul] a transposed {} times one shared {} is not supported; transpose it before",
                to_string(op.shape(0)), to_string(op.shape(1)));
  }
  const std::string text =
      fmt::format("a[b… {}] b[{}{}]{}{} -> y[b… m n]{}", ta ? "k m" : "m k", shared ? "" : "b… ",
                  tb ? "n k" : "k n", bias ? " bias[n]" : "", residual ? " residual[b… m n]" : "",
                  epilogue == "bias_gelu" ? " pre[b… m n]" : "");
  IndexRule result = rule(op, text);
  // A split sum would add the bias or the residual once per part.
  if (epilogue != "none") result.whole("k");
  return result;
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
  if (g.wants(0)) da = ta ? product(b, dy, tb, true) : product(dy, b, false, !tb);
  if (g.wants(1)) {
    // A weight shared by the batch collects from all of it: the batch dims join the rows.
    const bool flatten = g.shape(b).rank() == 2 && g.shape(a).rank() > 2;
    const auto rows = [&](ValueId value) {
      const Shape& shape = g.shape(value);
      return flatten
                 ? g.op("reshape", {value},
                        {{"shape", std::vector<int64_t>{shape.elements(0, shape.rank() - 1), shape.back()}}})
                 : value;
    };
    const ValueId a2 = rows(a), dy2 = rows(dy);
    db = tb ? product(dy2, a2, true, ta) : product(a2, dy2, !ta, false);
  }
  return {da, db};
}

}  // namespace

void add_matmul(OpTable& table) {
  table.add(
      {.name = "matmul",
       .index = matmul_rule,
       .gradient =
           [](GradBuilder& g) {
             if (g.attrs().text("epilogue", "none") != "none")
               throw_error("[matmul] an epilogue is {}", kFusedOp.reason);
             return matmul_gradient(g);
           },
       .flops = [](const OpInstance&, const IndexRule& r) { return 2.0 * static_cast<double>(r.volume()); }});
}

}  // namespace trireme
