// The encoder-decoder transformer of Vaswani et al.: the encoder reads a source, the decoder a target, of
// which each token sees those before it and the whole source. Norms follow each part, positions are sines and
// cosines, and one table is source embedding, target embedding and head. Parameters have the names that
// Hugging Face's Marian gives them. Sources are not equally long: what lies behind one's end is seen by
// nobody (the op attention_padded). What lies behind a target's end is seen by nothing that counts.
#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/models/model.h"
#include "trireme/models/transformer.h"

namespace trireme {
namespace seq2seq {
namespace {

using Side = TensorSplit::Side;
using Ints = std::vector<int64_t>;
constexpr double kPositionBase = 10000;

ModelOptions sizes(ModelOptions options) {
  if (options.kv_heads == 0) options.kv_heads = options.heads;
  if (options.feed_forward == 0) options.feed_forward = 4 * options.hidden;
  if (options.source_seq == 0) options.source_seq = options.seq;
  return options;
}

std::vector<std::string> problems(const ModelOptions& options) {
  std::vector<std::string> found = head_problems(options);
  if (options.hidden % 2 != 0)
    found.push_back(fmt::format(
        "model.hidden = {} is odd, but positions are pairs of a sine and a cosine; an even number is needed",
        options.hidden));
  return found;
}

ValueId linear(Network& net, ValueId x, const std::string& name, int64_t outputs,
               const TensorSplit& split = {}) {
  const double ends = static_cast<double>(net.shape(x).back() + outputs);
  return net.linear(x, name, outputs, Network::Store::kOutIn, Init::uniform(std::sqrt(6 / ends)),
                    Bias::kZeros, split);
}

// [tokens, h]: sines in the first half of the features, cosines in the second. They are zeros and ones,
// turned by the angle of their position; made from a one that is kept as a buffer, as there are no constants
// in a graph.
ValueId position_table(Network& net, int64_t tokens, int64_t h) {
  const ValueId one = net.buffer("one", {}, Init::ones());
  const auto row = [&](double scale) {
    return net.op("broadcast", {net.op("affine", {one}, {{"scale", scale}})},
                  {{"shape", Ints{1, tokens, h / 2}}, {"dims", Ints{}}});
  };
  const ValueId start = net.op("concat", {row(0), row(1)}, {{"dim", int64_t{2}}});
  return net.reshape(net.op("rope", {start}, {{"base", kPositionBase}, {"inverse", int64_t{1}}}),
                     {tokens, h});
}

ValueId embed(Network& net, const ModelOptions& options, ValueId ids, ValueId table,
              const std::string& name) {
  const Builder::Scope part = net.scope(name);
  const ValueId tokens = net.op("affine", {net.op("embedding", {table, ids})},
                                {{"scale", std::sqrt(static_cast<double>(options.hidden))}});
  return net.dropout(net.op("add", {tokens, position_table(net, net.shape(ids)[1], options.hidden)}));
}

// x + dropout(y), normed: the end of each part of a layer.
ValueId add_and_norm(Network& net, const ModelOptions& options, ValueId x, ValueId y,
                     const std::string& name) {
  return net.layer_norm(net.op("add", {x, net.dropout(y)}), name, options.norm_eps);
}

// Of queries from x to keys and values from `to`: x itself, or the encoder's result with the lengths of its
// rows.
ValueId attention(Network& net, const ModelOptions& options, ValueId x, ValueId to, ValueId lengths,
                  const std::string& name) {
  const Builder::Scope part = net.scope(name);
  const int64_t h = options.hidden, d = head_size(options), b = net.shape(x)[0];
  const auto project = [&](ValueId from, const char* what) {
    return linear(net, from, fmt::format("{}.{}_proj", name, what), h, {Side::kOutputs, d});
  };
  const auto heads = [&](ValueId y) { return net.reshape(y, {b, net.shape(y)[1], options.heads, d}); };
  const ValueId q = net.reshape(project(x, "q"), {b, net.shape(x)[1], options.heads, 1, d});
  const ValueId k = heads(project(to, "k")), v = heads(project(to, "v"));
  const ValueId y = lengths == kNoValue ? net.attention(q, k, v, name, options.seq)
                                        : net.attention_to_lengths(q, k, v, lengths);
  return linear(net, net.reshape(y, net.shape(x)), name + ".out_proj", h, {Side::kInputs, d});
}

ValueId feed_forward(Network& net, const ModelOptions& options, ValueId x, const std::string& name) {
  const ValueId inside =
      net.op("relu", {linear(net, x, name + ".fc1", options.feed_forward, {Side::kOutputs})});
  return linear(net, inside, name + ".fc2", options.hidden, {Side::kInputs});
}

ValueId encoder_layer(Network& net, const ModelOptions& options, ValueId x, ValueId lengths,
                      const std::string& name) {
  const Builder::Scope block = net.scope(name);
  x = add_and_norm(net, options, x, attention(net, options, x, x, lengths, name + ".self_attn"),
                   name + ".self_attn_layer_norm");
  return add_and_norm(net, options, x, feed_forward(net, options, x, name), name + ".final_layer_norm");
}

ValueId decoder_layer(Network& net, const ModelOptions& options, ValueId x, ValueId source, ValueId lengths,
                      const std::string& name) {
  const Builder::Scope block = net.scope(name);
  x = add_and_norm(net, options, x, attention(net, options, x, x, kNoValue, name + ".self_attn"),
                   name + ".self_attn_layer_norm");
  x = add_and_norm(net, options, x, attention(net, options, x, source, lengths, name + ".encoder_attn"),
                   name + ".encoder_attn_layer_norm");
  return add_and_norm(net, options, x, feed_forward(net, options, x, name), name + ".final_layer_norm");
}

// source, source_length and ids.
ValueId logits(Network& net, const ModelOptions& given, std::span<const ValueId> inputs) {
  const ModelOptions options = sizes(given);
  const ValueId lengths = inputs[1];
  const ValueId table = net.table("model.shared.weight", options.vocab, options.hidden,
                                  Init::normal(1 / std::sqrt(static_cast<double>(options.hidden))));
  ValueId source = embed(net, options, inputs[0], table, "model.encoder.embed");
  for (int64_t layer = 0; layer < options.layers; ++layer)
    source = encoder_layer(net, options, source, lengths, fmt::format("model.encoder.layers.{}", layer));
  ValueId x = embed(net, options, inputs[2], table, "model.decoder.embed");
  for (int64_t layer = 0; layer < options.layers; ++layer)
    x = decoder_layer(net, options, x, source, lengths, fmt::format("model.decoder.layers.{}", layer));
  const Builder::Scope head = net.scope("head");
  return net.op("matmul", {net.rows_for_logits(x), table}, {{"transpose_b", int64_t{1}}});
}

}  // namespace
}  // namespace seq2seq

const ModelRecord& seq2seq_model() {
  using namespace seq2seq;
  static const ModelRecord record{
      .family = "seq2seq",
      .input = InputKind::kPairs,
      .logits_of_all = logits,
      .embedding = "model.shared.weight",
      .weight_settings = {"model.layers", "model.heads", "model.hidden", "model.feed_forward",
                          "model.norm_eps"},
      .problems = problems,
      .defaults = {{"model.layers", "2"}, {"optim.lr", "0.001"}},
      .with_automatic_sizes = sizes,
      .usual_sample =
          [](const ModelOptions& options) {
            return Shape{options.source_seq > 0 ? options.source_seq : options.seq, options.seq};
          },
  };
  return record;
}

}  // namespace trireme
