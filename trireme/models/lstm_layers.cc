#include "trireme/models/lstm_layers.h"

#include <cmath>
#include <numeric>

#include "trireme/base/error.h"

namespace trireme {
namespace {

// One layer; the input products of all times are one matmul.
ValueId lstm_layer(Network& net, ValueId x, const std::string& name, const std::string& suffix,
                   int64_t hidden, ValueId start) {
  const Builder::Scope layer = net.scope(name + "." + suffix);
  const int64_t t = net.shape(x)[0], b = net.shape(x)[1], inputs = net.shape(x)[2];
  const Init init = Init::uniform(1 / std::sqrt(static_cast<double>(hidden)));
  const Attrs transposed{{"transpose_b", int64_t{1}}};
  // Tensor parallelism gives each rank all four gates of its features.
  const Attrs by_gates{{"tensor_dim", int64_t{0}}, {"tensor_blocks", int64_t{4}}};
  const auto parameter = [&](const char* what, const Shape& shape) {
    return net.parameter(name + "." + what + suffix, shape, init, by_gates);
  };
  const ValueId w_ih = parameter("weight_ih_", {4 * hidden, inputs});
  const ValueId w_hh = parameter("weight_hh_", {4 * hidden, hidden});
  const ValueId b_ih = parameter("bias_ih_", {4 * hidden});
  const ValueId b_hh = parameter("bias_hh_", {4 * hidden});
  const ValueId from_input =
      net.op("add", {net.op("add", {net.op("matmul", {x, w_ih}, transposed), b_ih}), b_hh});
  const std::vector<ValueId> at_time = net.split(from_input, 0, std::vector<int64_t>(t, 1));

  ValueId h = start, c = kNoValue;
  std::vector<ValueId> outputs;
  for (int64_t step = 0; step < t; ++step) {
    const Builder::Scope at = net.scope(fmt::format("t{}", step));
    ValueId gates = net.reshape(at_time[step], {b, 4 * hidden});
    if (h != kNoValue) gates = net.op("add", {net.op("matmul", {h, w_hh}, transposed), gates});
    const std::vector<ValueId> ifgo = net.split(gates, 1, {hidden, hidden, hidden, hidden});
    const ValueId new_part = net.op("mul", {net.op("sigmoid", {ifgo[0]}), net.op("tanh", {ifgo[2]})});
    c = c == kNoValue ? new_part
                      : net.op("add", {net.op("mul", {net.op("sigmoid", {ifgo[1]}), c}), new_part});
    h = net.op("mul", {net.op("sigmoid", {ifgo[3]}), net.op("tanh", {c})});
    outputs.push_back(net.reshape(h, {1, b, hidden}));
  }
  return net.dropout(net.op("concat", outputs, {{"dim", int64_t{0}}}));
}

}  // namespace

void check_lstm_steps(const ModelOptions& options, int64_t times) {
  constexpr int64_t kMostSteps = 50'000;
  if (options.layers * times > kMostSteps) {
    throw_error(
        "an lstm of {} layers over {} tokens is written out in {} steps, {} at most; lower model.seq or "
        "model.layers",
        options.layers, times, options.layers * times, kMostSteps);
  }
}

ValueId lstm_embed(Network& net, ValueId table, ValueId ids, const std::string& name) {
  const Builder::Scope part = net.scope(name);
  return net.dropout(net.op("embedding", {table, swap_time_and_batch(net, ids)}));
}

ValueId lstm_layers(Network& net, const ModelOptions& options, ValueId x, const std::string& name,
                    ValueId start) {
  for (int64_t layer = 0; layer < options.layers; ++layer)
    x = lstm_layer(net, x, name, "l" + std::to_string(layer), options.hidden, start);
  return x;
}

ValueId lstm_head(Network& net, const ModelOptions& options, ValueId x, ValueId table) {
  const ValueId last = net.rows_for_logits(x);
  const Init init = Init::uniform(1 / std::sqrt(static_cast<double>(options.hidden)));
  if (options.tie_embeddings) {
    const ValueId bias = net.parameter("head.bias", {options.vocab}, init, {{"tensor_dim", int64_t{0}}});
    return net.op("add", {net.op("matmul", {last, table}, {{"transpose_b", int64_t{1}}}), bias});
  }
  return net.linear(last, "head", options.vocab, Network::Store::kOutIn, init, Bias::kUniform,
                    {TensorSplit::Side::kOutputs});
}

ValueId swap_time_and_batch(Network& net, ValueId x) {
  std::vector<int64_t> order(net.shape(x).rank());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[0], order[1]);
  return net.op("transpose", {x}, {{"perm", order}});
}

}  // namespace trireme
