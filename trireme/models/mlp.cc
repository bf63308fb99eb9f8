// A multi-layer perceptron on flattened images: `layers` linear layers with ReLU between them.
#include <cmath>

#include "trireme/models/model.h"

namespace trireme {
namespace mlp {
namespace {

ValueId logits(Network& net, const ModelOptions& options, ValueId images) {
  ValueId x = net.flatten(images);
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    const std::string name = "layers." + std::to_string(layer);
    const Builder::Scope scope = net.scope(name);
    const bool last = layer + 1 == options.layers;
    // Pairs from the end on: outputs, then inputs. The first layer of an odd number goes by outputs too.
    const bool by_inputs = (options.layers - layer) % 2 == 1 && layer > 0;
    const double bound = 1 / std::sqrt(static_cast<double>(net.shape(x).back()));
    x = net.linear(x, name, last ? options.classes : options.hidden, Network::Store::kOutIn,
                   Init::uniform(bound), Bias::kUniform,
                   {by_inputs ? TensorSplit::Side::kInputs : TensorSplit::Side::kOutputs});
    if (!last) x = net.dropout(net.op("relu", {x}));
  }
  return x;
}

}  // namespace
}  // namespace mlp

const ModelRecord& mlp_model() {
  using namespace mlp;
  static const ModelRecord record{
      .family = "mlp",
      .input = InputKind::kImages,
      .logits = logits,
      .weight_settings = {"model.layers", "model.hidden"},
      .usual_sample =
          [](const ModelOptions&) {
            return Shape{1, 28, 28};
          },
  };
  return record;
}

}  // namespace trireme
