// ONNX's losses, for targets that are known. A model's own loss is not needed: training adds one.
#include <algorithm>

#include "trireme/onnx/node.h"

namespace trireme::onnx {
namespace {

// Σ over classes (dim 1) of −w·log p at the target, and how it is reduced.
Values negative_log_likelihood(Node& n, const Value& log_p) {
  const Tensor& targets = n.constant(1, "targets");
  const Shape& s = log_p.shape;
  if (s.rank() < 2) throw_error("it is given {}; classes are dim 1", to_string(s));
  const int64_t classes = s[1], inner = s.elements(2, s.rank());
  if (targets.elements() * classes != s.elements())
    throw_error("{} targets of {}", to_string(targets.shape), to_string(s));
  const bool ignores = n.has_attribute("ignore_index");
  const int64_t ignored = n.integer("ignore_index", 0);
  std::vector<double> of_class(classes, 1);
  if (n.has(2)) {
    const Tensor& weight = n.constant(2, "weights");
    if (weight.elements() != classes) throw_error("{} weights of {} classes", weight.elements(), classes);
    of_class = weight.reals;
  }
  Tensor weights = zeros(Type::kF32, s), chosen = zeros(Type::kBool, s);
  double total = 0;
  for (int64_t i = 0; i < targets.elements(); ++i) {
    const int64_t target = targets.integers[i];
    if (ignores && target == ignored) continue;
    if (target < 0 || target >= classes) throw_error("target {} of {} classes", target, classes);
    const int64_t at = (i / inner * classes + target) * inner + i % inner;
    chosen.integers[at] = 1;
    store(weights, at, of_class[target]);
    total += of_class[target];
  }
  const Value kept = n.e.select(Emitter::known(std::move(chosen)), log_p, Emitter::scalar(0));
  const Value losses =
      n.e.reduce(n.e.negate(n.e.multiply(kept, Emitter::known(std::move(weights)))), "sum", {1});
  const std::string how = n.text("reduction", "mean");
  if (how == "none") return {losses};
  std::vector<int> all;
  for (int d = 0; d < losses.shape.rank(); ++d) all.push_back(d);
  const Value sum = n.e.reduce(losses, "sum", all);
  if (how == "sum") return {sum};
  if (total == 0) throw_error("the mean over no targets");
  return {n.e.affine(sum, 1 / total, 0)};
}

Values cross_entropy(Node& n) {
  const Value& x = n.in(0);
  if (x.shape.rank() < 2) throw_error("it is given {}; classes are dim 1", to_string(x.shape));
  const auto kept = [&](const Value& reduced) { return n.e.reshape(reduced, with_dim(x.shape, 1, 1)); };
  const Value apart = n.e.subtract(x, kept(n.e.reduce(x, "max", {1})));
  const Value log_p = n.e.subtract(apart, kept(n.e.log(n.e.reduce(n.e.exp(apart), "sum", {1}))));
  return {negative_log_likelihood(n, log_p)[0], log_p};
}

}  // namespace

std::vector<LoweringEntry> loss_ops() {
  return {{"NegativeLogLikelihoodLoss", [](Node& n) { return negative_log_likelihood(n, n.in(0)); }},
          {"SoftmaxCrossEntropyLoss", cross_entropy}};
}

}  // namespace trireme::onnx
