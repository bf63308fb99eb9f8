// Llama: rotary positions, RMSNorm, SwiGLU, grouped key/value heads, a head of its own or tied to the
// embedding. Parameters have Hugging Face's names and shapes (weights stored [out, in]).
#include <algorithm>
#include <cmath>
#include <iterator>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/models/experts.h"
#include "trireme/models/model.h"
#include "trireme/models/transformer.h"

namespace trireme {
namespace llama {
namespace {

constexpr double kDeviation = 0.02;

// The feed-forward part is two thirds of 4·hidden, so that three matrices weigh as much as the two of GPT-2.
ModelOptions sizes(ModelOptions options) {
  if (options.kv_heads == 0) options.kv_heads = options.heads;
  if (options.feed_forward == 0) options.feed_forward = (8 * options.hidden / 3 + 31) / 32 * 32;
  if (options.moe.experts > 0) options.moe = sizes_of(options.moe, options.feed_forward);
  return options;
}

ValueId linear(Network& net, ValueId x, const std::string& name, int64_t outputs,
               const TensorSplit& split = {}) {
  return net.linear(x, name, outputs, Network::Store::kOutIn, Init::normal(kDeviation), Bias::kNone, split);
}

ValueId attention(Network& net, const ModelOptions& options, ValueId x, const std::string& name) {
  const Builder::Scope part = net.scope(name);
  const int64_t b = net.shape(x)[0], t = net.shape(x)[1], h = options.hidden, d = head_size(options);
  const int64_t groups = sizes(options).kv_heads;
  if (options.heads % groups != 0) {
    throw_error("model.heads = {} cannot be grouped evenly over model.kv_heads = {}", options.heads, groups);
  }
  if (d % 2 != 0) throw_error("heads of {} features cannot be rotated in pairs; an even number expected", d);
  // Query heads go with their key and value head.
  const TensorSplit queries{TensorSplit::Side::kOutputs, d * (options.heads / groups)};
  const TensorSplit keys{TensorSplit::Side::kOutputs, d}, joined{TensorSplit::Side::kInputs, queries.unit};
  const ValueId q = net.rope(
      net.reshape(linear(net, x, name + ".q_proj", h, queries), {b, t, groups, options.heads / groups, d}),
      options.rope_base);
  const ValueId k = net.rope(
      net.reshape(linear(net, x, name + ".k_proj", groups * d, keys), {b, t, groups, d}), options.rope_base);
  const ValueId v = net.reshape(linear(net, x, name + ".v_proj", groups * d, keys), {b, t, groups, d});
  const ValueId y = net.attention(q, k, v, name, options.seq);
  return net.dropout(linear(net, net.reshape(y, {b, t, h}), name + ".o_proj", h, joined));
}

ValueId feed_forward(Network& net, ValueId x, const std::string& name, int64_t inner) {
  const Builder::Scope part = net.scope(name);
  const ValueId gate =
      net.op("silu", {linear(net, x, name + ".gate_proj", inner, {TensorSplit::Side::kOutputs})});
  const ValueId up = linear(net, x, name + ".up_proj", inner, {TensorSplit::Side::kOutputs});
  return net.dropout(linear(net, net.op("mul", {gate, up}), name + ".down_proj", net.shape(x).back(),
                            {TensorSplit::Side::kInputs}));
}

const ExpertStyle& expert_style() {
  static const ExpertStyle style{.store = Network::Store::kOutIn,
                                 .router = "gate",
                                 .bias = "gate.e_score_correction_bias",
                                 .experts = "experts",
                                 .shared = "shared_experts",
                                 .up = {"gate_proj", "up_proj"},
                                 .down = "down_proj",
                                 .deviation = kDeviation,
                                 .residual_deviation = kDeviation,
                                 .activate =
                                     [](Network& net, const std::vector<ValueId>& x) {
                                       return net.op("mul", {net.op("silu", {x[0]}), x[1]});
                                     },
                                 .dense = feed_forward};
  return style;
}

ValueId embed(Network& net, ValueId table, ValueId ids) {
  const Builder::Scope part = net.scope("embed");
  return net.op("embedding", {table, ids});
}

ValueId logits(Network& net, const ModelOptions& given, ValueId ids) {
  const ModelOptions options = sizes(given);
  const ValueId table =
      net.table("model.embed_tokens.weight", options.vocab, options.hidden, Init::normal(kDeviation));
  ValueId x = embed(net, table, ids);
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    const std::string name = "model.layers." + std::to_string(layer);
    const Builder::Scope block = net.scope(name);
    const auto norm = [&](const char* part) { return net.rms_norm(x, name + part, options.norm_eps); };
    x = net.op("add", {x, attention(net, options, norm(".input_layernorm"), name + ".self_attn")});
    const ValueId normed = norm(".post_attention_layernorm");
    x = net.op("add", {x, has_experts(options, layer)
                              ? mixture_of_experts(net, options, normed, name + ".mlp", expert_style())
                              : feed_forward(net, normed, name + ".mlp", options.feed_forward)});
  }
  const Builder::Scope head = net.scope("head");
  const ValueId last = net.rms_norm(net.rows_for_logits(x), "model.norm", options.norm_eps);
  if (options.tie_embeddings) return net.op("matmul", {last, table}, {{"transpose_b", int64_t{1}}});
  return linear(net, last, "lm_head", options.vocab, {TensorSplit::Side::kOutputs});
}

std::vector<std::string> problems(const ModelOptions& options) {
  std::vector<std::string> found = head_problems(options);
  if (found.empty() && options.hidden / options.heads % 2 != 0) {
    found.push_back(
        fmt::format("a llama head of model.hidden / model.heads = {} features cannot be rotated in pairs; "
                    "expected an even number",
                    options.hidden / options.heads));
  }
  const int64_t groups = sizes(options).kv_heads;
  if (groups > options.heads || options.heads % groups != 0) {
    found.push_back(
        fmt::format("model.heads = {} cannot be grouped evenly over model.kv_heads = {}; try kv_heads {}",
                    options.heads, groups, divisors_near(options.heads, groups)));
  }
  std::ranges::move(expert_problems(options), std::back_inserter(found));
  return found;
}

}  // namespace
}  // namespace llama

const ModelRecord& llama_model() {
  using namespace llama;
  static const ModelRecord record{
      .family = "llama",
      .input = InputKind::kTokens,
      .logits = logits,
      .decodes = Decodes::kYes,
      .embedding = "model.embed_tokens.weight",
      .weight_settings = {"model.layers", "model.heads", "model.kv_heads", "model.hidden",
                          "model.feed_forward", "model.rope_base", "model.norm_eps", "model.tie_embeddings",
                          "model.moe.experts", "model.moe.top_k", "model.moe.gate", "model.moe.capacity",
                          "model.moe.shared", "model.moe.every", "model.moe.hidden", "model.moe.groups",
                          "model.moe.expert_groups", "model.moe.top_groups", "model.moe.scale"},
      .problems = problems,
      .with_automatic_sizes = sizes,
      .usual_sample = [](const ModelOptions& options) { return Shape{options.seq}; },
  };
  return record;
}

}  // namespace trireme
