// ONNX ops that normalise.
#include <algorithm>
#include <cmath>

#include "trireme/onnx/node.h"

namespace trireme::onnx {
namespace {

// Whether statistics are those of the batch. Before opset 14 more than one result says so, before 7 an
// attribute.
bool is_training(Node& n) {
  if (n.opset < 7) return n.integer("is_test", 0) == 0;
  return n.opset < 14 ? n.gives(1) : n.integer("training_mode", 0) != 0;
}

Values batch_norm(Node& n) {
  const Value& x = n.in(0);
  const double eps = n.real("epsilon", 1e-5);
  if (n.integer("spatial", 1) == 0) throw_error("spatial = 0 is not supported");
  if (x.shape.rank() < 2) throw_error("it normalises {}; channels are dim 1", to_string(x.shape));
  if (is_training(n)) {
    if (!n.e.around().batch_norm) {
      throw_error(
          "it normalises by statistics of the batch and gives new running ones; only training does so");
    }
    // The running statistics that it gives are states of ours, and whoever reads them elsewhere is refused.
    if (n.in(3).stored && n.in(4).stored)
      return {
          n.e.computed(n.e.around().batch_norm({n.e.id(x), n.e.id(n.in(1)), n.e.id(n.in(2)), n.in(3).stored,
                                                n.in(4).stored, eps, 1 - n.real("momentum", 0.9)}))};
    throw_error("its running statistics are not initializers");
  }
  // From ops that have a gradient: the model may be trained on, with these statistics.
  const auto fixed = [&](int i) {
    return n.in(i).stored ? Emitter::known(n.constant(i, "statistics")) : n.in(i);
  };
  const Value scale = n.e.divide(n.in(1), n.e.sqrt(n.e.affine(fixed(4), 1, eps)));
  const Value shift = n.e.subtract(n.in(2), n.e.multiply(fixed(3), scale));
  Shape channels{x.shape[1]};
  while (channels.rank() < x.shape.rank() - 1) channels.push_back(1);
  return {n.e.add(n.e.multiply(x, n.e.reshape(scale, channels)), n.e.reshape(shift, channels))};
}

// gain·(x − mean) / sqrt(variance + eps) over `from` and the dims behind it, as one.
struct Flat {
  Value x;
  Shape outer;
};
Flat flat_from(Emitter& e, const Value& x, int from) {
  const int64_t inner = x.shape.elements(from, x.shape.rank());
  Shape shape = x.shape.slice(0, from);
  const Shape outer = shape;
  shape.push_back(inner);
  return {e.reshape(x, shape), outer};
}

Value flat_gain(Emitter& e, const Value& gain, const Shape& normalised) {
  return e.reshape(e.expand(gain, normalised), {normalised.elements()});
}

Values layer_norm(Node& n) {
  const Value& x = n.in(0);
  const int from = n.axis(-1), rank = x.shape.rank();
  const Shape normalised = x.shape.slice(from, rank);
  const Flat flat = flat_from(n.e, x, from);
  const Value gain = flat_gain(n.e, n.in(1), normalised);
  const Value bias = n.has(2) ? flat_gain(n.e, n.in(2), normalised)
                              : n.e.expand(Emitter::scalar(0), {normalised.elements()});
  const std::vector<ValueId> results = n.e.builder().node(
      "layer_norm", {n.e.id(flat.x), n.e.id(gain), n.e.id(bias)}, {{"eps", n.real("epsilon", 1e-5)}});
  Shape kept = x.shape;
  for (int d = from; d < rank; ++d) kept.set(d, 1);
  Values given{n.e.reshape(n.e.computed(results[0]), x.shape)};
  for (int i = 1; i < 3; ++i) {
    if (n.gives(i)) given.push_back(n.e.reshape(n.e.computed(results[i]), kept));
  }
  return given;
}

Values rms_norm(Node& n) {
  const Value& x = n.in(0);
  const int from = n.axis(-1);
  const Flat flat = flat_from(n.e, x, from);
  const Value gain = flat_gain(n.e, n.in(1), x.shape.slice(from, x.shape.rank()));
  return {n.e.reshape(n.e.op("rms_norm", {flat.x, gain}, {{"eps", n.real("epsilon", 1e-5)}}), x.shape)};
}

// Over the places of each channel of each sample (of each group of channels): layer_norm without a gain, then
// a gain for each channel.
Values grouped_norm(Node& n, int64_t groups) {
  const Value& x = n.in(0);
  if (x.shape.rank() < 3 || groups < 1 || x.shape[1] % groups != 0)
    throw_error("{} in {} groups", to_string(x.shape), groups);
  const Value rows = n.e.reshape(x, {x.shape[0], groups, x.shape.elements(1, x.shape.rank()) / groups});
  const Value one = n.e.expand(Emitter::scalar(1), {rows.shape[2]}),
              none = n.e.expand(Emitter::scalar(0), {rows.shape[2]});
  const Value normed =
      n.e.reshape(n.e.op("layer_norm", {rows, one, none}, {{"eps", n.real("epsilon", 1e-5)}}), x.shape);
  Shape channels{x.shape[1]};
  while (channels.rank() < x.shape.rank() - 1) channels.push_back(1);
  return {n.e.add(n.e.multiply(normed, n.e.reshape(n.in(1), channels)), n.e.reshape(n.in(2), channels))};
}

// x / (bias + alpha / size · sum of squares of neighbouring channels)^beta
Values local_response_norm(Node& n) {
  const Value& x = n.in(0);
  const int64_t size = n.integer("size", 1), channels = x.shape[1];
  const double beta = n.real("beta", 0.75), bias = n.real("bias", 1), alpha = n.real("alpha", 1e-4);
  if (size < 1 || !(bias > 0) || alpha < 0)
    throw_error("a size of {}, a bias of {} and an alpha of {}", size, bias, alpha);
  Tensor near = zeros(Type::kF32, {channels, channels});
  for (int64_t from = 0; from < channels; ++from) {
    for (int64_t to = 0; to < channels; ++to)
      near.reals[from * channels + to] = from >= to - (size - 1) / 2 && from <= to + size / 2;
  }
  const Value squares = n.e.along(n.e.multiply(x, x), 1, near);
  const Value inside = n.e.affine(squares, alpha / static_cast<double>(size), bias);
  return {n.e.multiply(x, n.e.exp(n.e.affine(n.e.log(inside), -beta, 0)))};
}

}  // namespace

std::vector<LoweringEntry> norm_ops() {
  return {{"BatchNormalization", batch_norm},
          {"LayerNormalization", layer_norm},
          {"RMSNormalization", rms_norm},
          {"InstanceNormalization",
           [](Node& n) { return grouped_norm(n, n.in(0).shape.rank() > 1 ? n.in(0).shape[1] : 0); }},
          {"GroupNormalization",
           [](Node& n) {
             if (n.opset < 21)
               throw_error("before opset 21 its gain is one for each group, which is not supported");
             return grouped_norm(n, n.integer("num_groups", 0));
           }},
          {"LRN", local_response_norm}};
}

}  // namespace trireme::onnx
