// An encoder and a decoder of LSTM layers with attention (Luong et al.): each state of the decoder looks over the
// encoder's states, and what it finds there, beside the state itself, gives the logits. The decoder starts
// from the mean of the encoder's states, as in Nematus: an LSTM's last state is that of the padding where a
// source is shorter than others. One table serves source and target.
#include <cmath>

#include "trireme/models/lstm_layers.h"
#include "trireme/models/model.h"

namespace trireme {
namespace lstm_seq2seq {
namespace {

ModelOptions sizes(ModelOptions options) {
  if (options.source_seq == 0) options.source_seq = options.seq;
  return options;
}

ValueId linear(Network& net, ValueId x, const std::string& name, Bias bias) {
  const int64_t inputs = net.shape(x).back(), outputs = net.shape(x).back();
  return net.linear(x, name, outputs, Network::Store::kOutIn,
                    Init::uniform(1 / std::sqrt(static_cast<double>(inputs))), bias);
}

// What queries [b, t, h] find in the states [b, s, h] of sources, up to the length of each.
ValueId attend(Network& net, ValueId queries, ValueId states, ValueId lengths) {
  const Shape q = net.shape(queries), s = net.shape(states);
  const ValueId kept = net.reshape(states, {s[0], s[1], 1, s[2]});
  return net.reshape(
      net.attention_to_lengths(net.reshape(queries, {q[0], q[1], 1, 1, q[2]}), kept, kept, lengths), q);
}

// The mean of the states is what a query of zeros finds, to which all are alike.
ValueId start_of(Network& net, ValueId states, ValueId lengths) {
  const Builder::Scope part = net.scope("decoder.start");
  const Shape s = net.shape(states);
  const ValueId first = s[1] == 1 ? states : net.split(states, 1, {1, s[1] - 1})[0];
  const ValueId zeros = net.op("affine", {first}, {{"scale", 0.0}});
  const ValueId mean = net.reshape(attend(net, zeros, states, lengths), {s[0], s[2]});
  return net.op("tanh", {linear(net, mean, "decoder.start", Bias::kUniform)});
}

// x [b, t, h] with what it finds in the source.
ValueId look_over(Network& net, ValueId x, ValueId states, ValueId lengths) {
  const Builder::Scope part = net.scope("attention");
  const ValueId found = attend(net, linear(net, x, "attention.query", Bias::kNone), states, lengths);
  return net.op("tanh", {net.op("add", {linear(net, found, "attention.found", Bias::kNone),
                                        linear(net, x, "attention.state", Bias::kNone)})});
}

// source, source_length and ids.
ValueId logits(Network& net, const ModelOptions& options, std::span<const ValueId> inputs) {
  check_lstm_steps(options, net.shape(inputs[0])[1] + net.shape(inputs[2])[1]);
  const ValueId lengths = inputs[1];
  const ValueId table = net.table("embedding.weight", options.vocab, options.hidden, Init::normal(0.1));
  const ValueId source =
      lstm_layers(net, options, lstm_embed(net, table, inputs[0], "encoder.embedding"), "encoder");
  const ValueId states = swap_time_and_batch(net, source);
  const ValueId start = start_of(net, states, lengths);
  const ValueId x =
      lstm_layers(net, options, lstm_embed(net, table, inputs[2], "decoder.embedding"), "decoder", start);
  const ValueId seen = look_over(net, swap_time_and_batch(net, x), states, lengths);
  const Builder::Scope head = net.scope("head");
  return lstm_head(net, options, seen, table);
}

}  // namespace
}  // namespace lstm_seq2seq

const ModelRecord& lstm_seq2seq_model() {
  using namespace lstm_seq2seq;
  static const ModelRecord record{
      .family = "lstm_seq2seq",
      .input = InputKind::kPairs,
      .logits_of_all = logits,
      .embedding = "embedding.weight",
      .weight_settings = {"model.layers", "model.hidden", "model.tie_embeddings"},
      .defaults = {{"model.layers", "1"}},
      .with_automatic_sizes = sizes,
      .usual_sample =
          [](const ModelOptions& options) {
            return Shape{options.source_seq > 0 ? options.source_seq : options.seq, options.seq};
          },
  };
  return record;
}

}  // namespace trireme
