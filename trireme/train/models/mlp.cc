// A multi-layer perceptron on flattened images: `layers` linear layers with ReLU between them.
#include <cmath>

#include "trireme/train/models/model.h"

namespace trireme {

ValueId mlp_logits(Network& net, const ModelOptions& options, ValueId images) {
  const Shape in = net.shape(images);
  ValueId x = net.reshape(images, {in[0], in.elements(1, in.rank())});
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    const bool last = layer + 1 == options.layers;
    // Pairs from the end on: outputs, then inputs. The first layer of an odd number goes by outputs too.
    const bool by_inputs = (options.layers - layer) % 2 == 1 && layer > 0;
    const double bound = 1 / std::sqrt(static_cast<double>(net.shape(x).back()));
    x = net.linear(x, "layers." + std::to_string(layer), last ? options.classes : options.hidden,
                   Network::Store::kOutIn, Init::uniform(bound), Bias::kUniform,
                   {by_inputs ? TensorSplit::Side::kInputs : TensorSplit::Side::kOutputs});
    if (!last) x = net.dropout(net.op("relu", {x}));
  }
  return x;
}

}  // namespace trireme
