// LeNet-5 with ReLU and maximum pooling, on images of 28×28 or larger.
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/models/model.h"

namespace trireme {
namespace lenet {
namespace {

ValueId linear(Network& net, ValueId x, const std::string& name, int64_t outputs, TensorSplit::Side side) {
  const double bound = 1 / std::sqrt(static_cast<double>(net.shape(x).back()));
  return net.linear(x, name, outputs, Network::Store::kOutIn, Init::uniform(bound), Bias::kUniform, {side});
}

ValueId convolve(Network& net, ValueId x, const std::string& name, Network::Conv conv) {
  const Builder::Scope layer = net.scope(name);
  return net.max_pool2d(net.op("relu", {net.conv2d(x, name, conv)}), 2, 2);
}

ValueId connect(Network& net, ValueId x, const std::string& name, int64_t outputs) {
  const Builder::Scope layer = net.scope(name);
  return net.dropout(net.op("relu", {linear(net, x, name, outputs, TensorSplit::Side::kOutputs)}));
}

ValueId logits(Network& net, const ModelOptions& options, ValueId images) {
  const Shape in = net.shape(images);
  if (in[2] < 28 || in[3] < 28)
    throw_error("lenet wants images of 28x28 or more; they are {}x{}", in[2], in[3]);
  // The digits of MNIST are 28×28 and are padded to the 32×32 of the paper; larger images are taken as they
  // are.
  const int64_t padding = in[2] == 28 ? 2 : 0;
  ValueId x =
      convolve(net, images, "conv1", {.filters = 6, .kernel = 5, .padding = padding, .bias = Bias::kUniform});
  x = convolve(net, x, "conv2", {.filters = 16, .kernel = 5, .padding = 0, .bias = Bias::kUniform});
  x = connect(net, connect(net, net.flatten(x), "fc1", 120), "fc2", 84);
  return linear(net, x, "fc3", options.classes, TensorSplit::Side::kInputs);
}

}  // namespace
}  // namespace lenet

const ModelRecord& lenet_model() {
  using namespace lenet;
  static const ModelRecord record{
      .family = "lenet",
      .input = InputKind::kImages,
      .logits = logits,
      .usual_sample =
          [](const ModelOptions&) {
            return Shape{1, 28, 28};
          },
  };
  return record;
}

}  // namespace trireme
