// GPT-2: learned positions, LayerNorm before each part, GELU, tied head. Parameters have Hugging Face's names
// and shapes (weights stored [in, out]).
#include <algorithm>
#include <cmath>
#include <iterator>

#include "trireme/base/error.h"
#include "trireme/models/experts.h"
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

// Experts have no biases, as most have none.
ExpertStyle expert_style(double residual_deviation) {
  return {.store = Network::Store::kInOut,
          .router = "router",
          .bias = "router.bias",
          .experts = "experts",
          .shared = "shared",
          .up = {"c_fc"},
          .down = "c_proj",
          .deviation = kDeviation,
          .residual_deviation = residual_deviation,
          .activate = [](Network& net, const std::vector<ValueId>& x) { return net.op("gelu", {x[0]}); },
          .dense = [residual_deviation](
                       Network& net, ValueId x, const std::string& name,
                       int64_t inner) { return feed_forward(net, x, name, inner, residual_deviation); }};
}

ValueId embed(Network& net, const ModelOptions& options, ValueId ids, ValueId tokens) {
  const Builder::Scope part = net.scope("embed");
  const ValueId positions = net.parameter("wpe.weight", {options.seq, options.hidden},
                                          Init::normal(kDeviation), {{"tensor_sequence_dim", int64_t{0}}});
  return net.dropout(net.op("add", {net.op("embedding", {tokens, ids}), net.position_rows(positions, ids)}));
}

ModelOptions sizes(ModelOptions options) {
  if (options.kv_heads == 0) options.kv_heads = options.heads;
  if (options.feed_forward == 0) options.feed_forward = 4 * options.hidden;
  if (options.moe.experts > 0) options.moe = sizes_of(options.moe, options.feed_forward);
  return options;
}

std::vector<std::string> problems(const ModelOptions& options) {
  std::vector<std::string> found = head_problems(options);
  std::ranges::move(expert_problems(options), std::back_inserter(found));
  return found;
}

ValueId logits(Network& net, const ModelOptions& given, ValueId ids) {
  const ModelOptions options = sizes(given);
  const int64_t h = options.hidden, t = net.shape(ids)[1];
  if (t > options.seq)
    throw_error("sequences of {} tokens do not fit the {} positions of model.seq = {}", t, options.seq,
                options.seq);
  // Each of the 2L residual additions gets its share of the variance.
  const double residual_deviation = kDeviation / std::sqrt(2.0 * static_cast<double>(options.layers));
  const ExpertStyle experts = expert_style(residual_deviation);
  const ValueId tokens = net.table("wte.weight", options.vocab, h, Init::normal(kDeviation));
  ValueId x = embed(net, options, ids, tokens);
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    const std::string name = "h." + std::to_string(layer);
    const Builder::Scope block = net.scope(name);
    x = net.op("add", {x, attention(net, options, net.layer_norm(x, name + ".ln_1", options.norm_eps),
                                    name + ".attn", residual_deviation)});
    const ValueId normed = net.layer_norm(x, name + ".ln_2", options.norm_eps);
    x = net.op("add",
               {x, has_experts(options, layer)
                       ? mixture_of_experts(net, options, normed, name + ".mlp", experts)
                       : feed_forward(net, normed, name + ".mlp", options.feed_forward, residual_deviation)});
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
                          "model.norm_eps", "model.moe.experts", "model.moe.top_k", "model.moe.gate",
                          "model.moe.capacity", "model.moe.shared", "model.moe.every", "model.moe.hidden",
                          "model.moe.groups", "model.moe.expert_groups", "model.moe.top_groups",
                          "model.moe.scale"},
      .problems = problems,
      .with_automatic_sizes = sizes,
      .usual_sample = [](const ModelOptions& options) { return Shape{options.seq}; },
  };
  return record;
}

}  // namespace trireme
