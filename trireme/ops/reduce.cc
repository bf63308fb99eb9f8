// Reductions over some dims, which are left out of the result.
#include <algorithm>

#include "trireme/ops/records.h"

namespace trireme {
namespace {

const std::vector<int64_t>& reduced_dims(const OpInstance& op, int rank) {
  const std::vector<int64_t>& dims = op.attrs.integers("dims");
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0 || dims[i] >= rank || (i && dims[i] <= dims[i - 1])) {
      throw_error("[{}] dims must be ascending and below {}; {} found", op.op, rank, dims[i]);
    }
  }
  return dims;
}

// Indices of x as "i0 r1 i2", reduced ones with an r; and without those.
struct Names {
  std::string all, kept;
};
Names names(const OpInstance& op, int rank) {
  const std::vector<int64_t>& dims = reduced_dims(op, rank);
  Names result;
  for (int d = 0; d < rank; ++d) {
    if (std::ranges::find(dims, d) != dims.end()) {
      result.all += fmt::format(" r{}", d);
    } else {
      result.all += fmt::format(" i{}", d);
      result.kept += fmt::format(" i{}", d);
    }
  }
  return result;
}

IndexRule reduction(const OpInstance& op) {
  if (op.inputs.size() != 1) throw_error("[{}] {} inputs given, 1 expected", op.op, op.inputs.size());
  const Names n = names(op, op.shape(0).rank());
  return rule(op, WrittenRule(fmt::format("x[{}] -> y[{}]", n.all, n.kept)));
}

Attrs back_to(GradBuilder& g) {
  const Shape& shape = g.shape(g.in(0));
  const std::vector<int64_t>& dims = g.attrs().integers("dims");
  std::vector<int64_t> kept;
  for (int d = 0; d < shape.rank(); ++d) {
    if (std::ranges::find(dims, d) == dims.end()) kept.push_back(d);
  }
  return {{"shape", std::vector<int64_t>(shape.begin(), shape.end())}, {"dims", kept}};
}

}  // namespace

void add_reduce(OpTable& table) {
  using G = GradBuilder;
  table.add({.name = "sum",
             .index = reduction,
             .gradient = [](G& g) { return std::vector{g.op("broadcast", {g.dy()}, back_to(g))}; },
             .linear = always_linear});
  table.add({.name = "mean",
             // A mean of parts is not the mean of the whole times anything fixed, so the dims stay whole.
             .index = [](const OpInstance& op) { return reduction(op).whole("r…"); },
             .gradient =
                 [](G& g) {
                   const double count = static_cast<double>(g.shape(g.in(0)).elements()) /
                                        static_cast<double>(g.shape(g.out(0)).elements());
                   return std::vector{
                       g.op("broadcast", {g.op("affine", {g.dy()}, {{"scale", 1.0 / count}})}, back_to(g))};
                 }});
  table.add({.name = "max",
             .index = [](const OpInstance& op) { return reduction(op).max("r…"); },
             .gradient =
                 [](G& g) {
                   return std::vector{g.op("max_grad", {g.dy(), g.in(0), g.out(0)}, g.attrs())};
                 }});
  table.add({.name = "max_grad",
             .index =
                 [](const OpInstance& op) {
                   if (op.inputs.size() != 3)
                     throw_error("[{}] {} inputs given, 3 expected", op.op, op.inputs.size());
                   const Names n = names(op, op.shape(1).rank());
                   return rule(op, WrittenRule(fmt::format("dy[{}] x[{}] y[{}] -> dx[{}]", n.kept, n.all,
                                                           n.kept, n.all)))
                       .whole("r…");
                 },
             .gradient = kBackwardOp});
  // With of = "addends": the squares of the addends that the value is still made of, each for itself, where
  // it lies on a mesh as a sum. So it is no function of the value alone: it measures how addends differ. To
  // the partition pass it is linear, since squares of addends are addends of the result.
  table.add({.name = "sum_squares",
             .index = written<"x[i…] -> y[]">,
             .outputs = {DTypeRule::kF32},
             .gradient =
                 [](G& g) {
                   const std::string format(name(g.builder().type(g.in(0)).dtype));
                   const ValueId dy = format == "f32" ? g.dy() : g.op("cast", {g.dy()}, {{"to", format}});
                   return std::vector{g.op("mul", {g.op("affine", {g.in(0)}, {{"scale", 2.0}}), dy})};
                 },
             .flops = flops_per_element<2>,
             .linear = [](const OpInstance& op) { return op.attrs.text("of", "") == "addends"; }});
  // The sums of squares of all inputs, added up from the first to the last.
  table.add({.name = "total_squares",
             .index =
                 [](const OpInstance& op) {
                   if (op.inputs.empty()) throw_error("[{}] no inputs given", op.op);
                   std::string in;
                   int index = 0;
                   for (size_t i = 0; i < op.inputs.size(); ++i) {
                     in += fmt::format("x{}[", i);
                     for (int d = 0; d < op.shape(static_cast<int>(i)).rank(); ++d)
                       in += fmt::format(" i{}", index++);
                     in += "] ";
                   }
                   return rule(op, WrittenRule(in + "-> y[]")).whole("i…");
                 },
             .outputs = {DTypeRule::kF32},
             .gradient = kFusedOp,
             .flops =
                 [](const OpInstance& op, const IndexRule&) {
                   double total = 0;
                   for (const TensorType& type : op.inputs)
                     total += 2.0 * static_cast<double>(type.shape.elements());
                   return total;
                 }});
}

}  // namespace trireme
