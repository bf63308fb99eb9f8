// An LSTM language model: embedding, layers of LSTM unrolled over the sequence, a linear head, which may have
// the embedding's table for a weight. Parameters have PyTorch's names, shapes and gate order (input, forget,
// cell, output).
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/models/model.h"

namespace trireme {
namespace lstm {
namespace {

// One layer over x [t, b, in]; returns [t, b, hidden]. The input products of all times are one matmul.
ValueId lstm_layer(Network& net, ValueId x, const std::string& suffix, int64_t hidden) {
  const Builder::Scope layer = net.scope("lstm." + suffix);
  const int64_t t = net.shape(x)[0], b = net.shape(x)[1], inputs = net.shape(x)[2];
  const Init init = Init::uniform(1 / std::sqrt(static_cast<double>(hidden)));
  const Attrs transposed{{"transpose_b", int64_t{1}}};
  // Tensor parallelism gives each rank all four gates of its features.
  const Attrs by_gates{{"tensor_dim", int64_t{0}}, {"tensor_blocks", int64_t{4}}};
  const ValueId w_ih = net.parameter("lstm.weight_ih_" + suffix, {4 * hidden, inputs}, init, by_gates);
  const ValueId w_hh = net.parameter("lstm.weight_hh_" + suffix, {4 * hidden, hidden}, init, by_gates);
  const ValueId b_ih = net.parameter("lstm.bias_ih_" + suffix, {4 * hidden}, init, by_gates);
  const ValueId b_hh = net.parameter("lstm.bias_hh_" + suffix, {4 * hidden}, init, by_gates);
  const ValueId from_input =
      net.op("add", {net.op("add", {net.op("matmul", {x, w_ih}, transposed), b_ih}), b_hh});
  const std::vector<ValueId> at_time = net.split(from_input, 0, std::vector<int64_t>(t, 1));

  ValueId h = kNoValue, c = kNoValue;
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

// Time first, so that one time step is one run of memory.
ValueId embed(Network& net, ValueId table, ValueId ids) {
  const Builder::Scope part = net.scope("embedding");
  const ValueId by_time = net.op("transpose", {ids}, {{"perm", std::vector<int64_t>{1, 0}}});
  return net.dropout(net.op("embedding", {table, by_time}));
}

ValueId logits(Network& net, const ModelOptions& options, ValueId ids) {
  // Each time step of each layer is some ten nodes.
  constexpr int64_t kMostSteps = 50'000;
  const int64_t seq = net.shape(ids)[1];
  if (options.layers * seq > kMostSteps) {
    throw_error(
        "an lstm of {} layers over {} tokens is written out in {} steps, {} at most; lower model.seq or "
        "model.layers",
        options.layers, seq, options.layers * seq, kMostSteps);
  }
  const ValueId table = net.table("embedding.weight", options.vocab, options.hidden, Init::normal(0.1));
  ValueId x = embed(net, table, ids);
  for (int64_t layer = 0; layer < options.layers; ++layer)
    x = lstm_layer(net, x, "l" + std::to_string(layer), options.hidden);
  const Builder::Scope head = net.scope("head");
  const double bound = 1 / std::sqrt(static_cast<double>(options.hidden));
  const ValueId by_row = net.op("transpose", {x}, {{"perm", std::vector<int64_t>{1, 0, 2}}});
  const ValueId last = net.rows_for_logits(by_row);
  if (options.tie_embeddings) {
    const ValueId bias =
        net.parameter("head.bias", {options.vocab}, Init::uniform(bound), {{"tensor_dim", int64_t{0}}});
    return net.op("add", {net.op("matmul", {last, table}, {{"transpose_b", int64_t{1}}}), bias});
  }
  return net.linear(last, "head", options.vocab, Network::Store::kOutIn, Init::uniform(bound), Bias::kUniform,
                    {TensorSplit::Side::kOutputs});
}

}  // namespace
}  // namespace lstm

const ModelRecord& lstm_model() {
  using namespace lstm;
  static const ModelRecord record{
      .family = "lstm",
      .input = InputKind::kTokens,
      .logits = logits,
      .embedding = "embedding.weight",
      .weight_settings = {"model.layers", "model.hidden", "model.tie_embeddings"},
      .usual_sample = [](const ModelOptions& options) { return Shape{options.seq}; },
  };
  return record;
}

}  // namespace trireme
