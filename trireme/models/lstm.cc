// An LSTM language model: embedding, layers of LSTM unrolled over the sequence, a linear head, which may have
// the embedding's table for a weight.
#include "trireme/models/lstm_layers.h"
#include "trireme/models/model.h"

namespace trireme {
namespace lstm {
namespace {

ValueId logits(Network& net, const ModelOptions& options, ValueId ids) {
  check_lstm_steps(options, net.shape(ids)[1]);
  const ValueId table = net.table("embedding.weight", options.vocab, options.hidden, Init::normal(0.1));
  const ValueId x = lstm_layers(net, options, lstm_embed(net, table, ids, "embedding"), "lstm");
  const Builder::Scope head = net.scope("head");
  return lstm_head(net, options, swap_time_and_batch(net, x), table);
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
