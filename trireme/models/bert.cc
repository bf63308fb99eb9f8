// BERT as a masked language model: attention to both sides, norms after each part, the head tied to the
// embedding. Parameters have Hugging Face's names and shapes (BertForMaskedLM). All tokens are of the first
// type: there are no pairs of sentences, and no loss for them. GELU is the tanh form, as everywhere here.
#include "trireme/base/error.h"
#include "trireme/models/model.h"
#include "trireme/models/transformer.h"

namespace trireme {
namespace bert {
namespace {

using Side = TensorSplit::Side;
constexpr double kDeviation = 0.02;
constexpr int64_t kTokenTypes = 2;

ValueId linear(Network& net, ValueId x, const std::string& name, int64_t outputs,
               const TensorSplit& split = {}) {
  return net.linear(x, name, outputs, Network::Store::kOutIn, Init::normal(kDeviation), Bias::kZeros, split);
}

// The layers that end both parts of a block: x + dropout(y·W + b), normed.
ValueId add_and_norm(Network& net, const ModelOptions& options, ValueId x, ValueId y, const std::string& name,
                     const TensorSplit& split) {
  const Builder::Scope part = net.scope(name);
  const ValueId z = net.dropout(linear(net, y, name + ".dense", options.hidden, split));
  return net.layer_norm(net.op("add", {x, z}), name + ".LayerNorm", options.norm_eps);
}

ValueId attention(Network& net, const ModelOptions& options, ValueId x, const std::string& name) {
  const Builder::Scope part = net.scope(name);
  const int64_t b = net.shape(x)[0], t = net.shape(x)[1], h = options.hidden, d = head_size(options);
  const auto project = [&](const char* what, const Shape& heads) {
    return net.reshape(linear(net, x, fmt::format("{}.self.{}", name, what), h, {Side::kOutputs, d}), heads);
  };
  const ValueId q = project("query", {b, t, options.heads, 1, d});
  const ValueId k = project("key", {b, t, options.heads, d}), v = project("value", {b, t, options.heads, d});
  const ValueId y = net.attention(q, k, v, name, options.seq, Network::Sees::kAll);
  return add_and_norm(net, options, x, net.reshape(y, {b, t, h}), name + ".output", {Side::kInputs, d});
}

ValueId embed(Network& net, const ModelOptions& options, ValueId ids, ValueId tokens) {
  const std::string name = "bert.embeddings";
  const Builder::Scope part = net.scope(name);
  const int64_t h = options.hidden;
  const ValueId positions = net.parameter(name + ".position_embeddings.weight", {options.seq, h},
                                          Init::normal(kDeviation), {{"tensor_sequence_dim", int64_t{0}}});
  const ValueId types =
      net.parameter(name + ".token_type_embeddings.weight", {kTokenTypes, h}, Init::normal(kDeviation));
  const ValueId first_type = net.reshape(
      net.op("slice", {types}, {{"dim", int64_t{0}}, {"start", int64_t{0}}, {"size", int64_t{1}}}), {h});
  ValueId x = net.op("add", {net.op("embedding", {tokens, ids}), net.position_rows(positions, ids)});
  x = net.op("add", {x, first_type});
  return net.dropout(net.layer_norm(x, name + ".LayerNorm", options.norm_eps));
}

ValueId predict(Network& net, const ModelOptions& options, ValueId x, ValueId tokens) {
  const Builder::Scope part = net.scope("cls");
  x = net.op("gelu", {linear(net, x, "cls.predictions.transform.dense", options.hidden)});
  x = net.layer_norm(x, "cls.predictions.transform.LayerNorm", options.norm_eps);
  const ValueId bias =
      net.parameter("cls.predictions.bias", {options.vocab}, Init::zeros(), {{"tensor_dim", int64_t{0}}});
  return net.op("add", {net.op("matmul", {x, tokens}, {{"transpose_b", int64_t{1}}}), bias});
}

ModelOptions sizes(ModelOptions options) {
  if (options.kv_heads == 0) options.kv_heads = options.heads;
  if (options.feed_forward == 0) options.feed_forward = 4 * options.hidden;
  return options;
}

ValueId logits(Network& net, const ModelOptions& given, ValueId ids) {
  const ModelOptions options = sizes(given);
  if (net.shape(ids)[1] > options.seq)
    throw_error("sequences of {} tokens do not fit the {} positions of model.seq = {}", net.shape(ids)[1],
                options.seq, options.seq);
  const ValueId tokens = net.table("bert.embeddings.word_embeddings.weight", options.vocab, options.hidden,
                                   Init::normal(kDeviation));
  ValueId x = embed(net, options, ids, tokens);
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    const std::string name = "bert.encoder.layer." + std::to_string(layer);
    const Builder::Scope block = net.scope(name);
    x = attention(net, options, x, name + ".attention");
    const ValueId inside = net.op(
        "gelu", {linear(net, x, name + ".intermediate.dense", options.feed_forward, {Side::kOutputs})});
    x = add_and_norm(net, options, x, inside, name + ".output", {Side::kInputs});
  }
  return predict(net, options, x, tokens);
}

}  // namespace
}  // namespace bert

const ModelRecord& bert_model() {
  using namespace bert;
  static const ModelRecord record{
      .family = "bert",
      .input = InputKind::kTokens,
      .targets = Targets::kMasked,
      .logits = logits,
      .embedding = "bert.embeddings.word_embeddings.weight",
      .weight_settings = {"model.layers", "model.heads", "model.hidden", "model.feed_forward", "model.seq",
                          "model.norm_eps"},
      .problems = head_problems,
      .with_automatic_sizes = sizes,
      .usual_sample = [](const ModelOptions& options) { return Shape{options.seq}; },
  };
  return record;
}

}  // namespace trireme
