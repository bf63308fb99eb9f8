// GPT-2: learned positions, LayerNorm before each part, GELU, tied head. Parameters have Hugging Face's names
// and shapes (weights stored [in, out]).
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/models/model.h"
#include "trireme/models/transformer.h"

namespace trireme {
namespace gpt {
namespace {

constexpr double kDeviation = 0.02;

ValueId linear(Network& net, ValueId x, const std::string& name, int64_t outputs, const TensorSplit& split,
               double deviation = kDeviation) {
  return net.linear(x, name, outputs, Network::Store::kInOut, Init::normal(deviation), Bias::kZeros, split);
}

ValueId attention(Network& net, const ModelOptions& options, ValueId x, const std::string& name,
                  double residual_deviation) {
  const Builder::Scope part = net.scope(name);
  const int64_t b = net.shape(x)[0], t = net.shape(x)[1], h = options.hidden, d = head_size(options);
  const std::vector<ValueId> qkv =
      net.split(linear(net, x, name + ".c_attn", 3 * h, {TensorSplit::Side::kOutputs, d, 3}), 2, {h, h, h});
  const ValueId q = net.reshape(qkv[0], {b, t, options.heads, 1, d});
  const ValueId k = net.reshape(qkv[1], {b, t, options.heads, d}),
                v = net.reshape(qkv[2], {b, t, options.heads, d});
  const ValueId y = net.attention(q, k, v, name, options.seq);
  return net.dropout(linear(net, net.reshape(y, {b, t, h}), name + ".c_proj", h,
                            {TensorSplit::Side::kInputs, d}, residual_deviation));
}

ValueId feed_forward(Network& net, ValueId x, const std::string& name, int64_t inner,
                     double residual_deviation) {
  const Builder::Scope part = net.scope(name);
  const ValueId inside =
      net.op("gelu", {linear(net, x, name + ".c_fc", inner, {TensorSplit::Side::kOutputs})});
  return net.dropout(linear(net, inside, name + ".c_proj", net.shape(x).back(), {TensorSplit::Side::kInputs},
                            residual_deviation));
}

ValueId embed(Network& net, const ModelOptions& options, ValueId ids, ValueId tokens) {
  const Builder::Scope part = net.scope("embed");
  const ValueId positions = net.parameter("wpe.weight", {options.seq, options.hidden},
                                          Init::normal(kDeviation), {{"tensor_sequence_dim", int64_t{0}}});
  return net.dropout(
      net.op("add", {net.op("embedding", {tokens, ids}), net.position_rows(positions, net.shape(ids)[1])}));
}

ModelOptions sizes(ModelOptions options) {
  if (options.kv_heads == 0) options.kv_heads = options.heads;
  if (options.feed_forward == 0) options.feed_forward = 4 * options.hidden;
  return options;
}

ValueId logits(Network& net, const ModelOptions& options, ValueId ids) {
  const int64_t h = options.hidden, t = net.shape(ids)[1];
  if (t > options.seq)
    throw_error("sequences of {} tokens do not fit the {} positions of model.seq = {}", t, options.seq,
                options.seq);
  const int64_t inner = sizes(options).feed_forward;
  // Each of the 2L residual additions gets its share of the variance.
  const double residual_deviation = kDeviation / std::sqrt(2.0 * static_cast<double>(options.layers));
  const ValueId tokens = net.table("wte.weight", options.vocab, h, Init::normal(kDeviation));
  ValueId x = embed(net, options, ids, tokens);
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    const std::string name = "h." + std::to_string(layer);
    const Builder::Scope block = net.scope(name);
    x = net.op("add", {x, attention(net, options, net.layer_norm(x, name + ".ln_1", options.norm_eps),
                                    name + ".attn", residual_deviation)});
    x = net.op("add", {x, feed_forward(net, net.layer_norm(x, name + ".ln_2", options.norm_eps),
                                       name + ".mlp", inner, residual_deviation)});
  }
  const Builder::Scope head = net.scope("head");
  return net.op("matmul", {net.layer_norm(net.rows_for_logits(x), "ln_f", options.norm_eps), tokens},
                {{"transpose_b", int64_t{1}}});
}

}  // namespace
}  // namespace gpt

const ModelRecord& gpt_model() {
  using namespace gpt;
  static const ModelRecord record{
      .family = "gpt",
      .input = InputKind::kTokens,
      .logits = logits,
      .decodes = Decodes::kYes,
      .embedding = "wte.weight",
      .weight_settings = {"model.layers", "model.heads", "model.hidden", "model.feed_forward", "model.seq",
                          "model.norm_eps"},
      .problems = head_problems,
      .with_automatic_sizes = sizes,
      .usual_sample = [](const ModelOptions& options) { return Shape{options.seq}; },
  };
  return record;
}

}  // namespace trireme
