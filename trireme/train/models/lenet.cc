// LeNet-5 with ReLU and maximum pooling, on images of 28×28 or larger.
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/train/models/model.h"

namespace trireme {
namespace {

ValueId linear(Network& net, ValueId x, const std::string& name, int64_t outputs, TensorSplit::Side side) {
  const double bound = 1 / std::sqrt(static_cast<double>(net.shape(x).back()));
  return net.linear(x, name, outputs, Network::Store::kOutIn, Init::uniform(bound), Bias::kUniform, {side});
}

}  // namespace

ValueId lenet_logits(Network& net, const ModelOptions& options, ValueId images) {
  const Shape in = net.shape(images);
  if (in[2] < 28 || in[3] < 28)
    throw_error("lenet wants images of 28x28 or more; they are {}x{}", in[2], in[3]);
  // The digits of MNIST are 28×28 and are padded to the 32×32 of the paper; larger images are taken as they
  // are.
  const int64_t padding = in[2] == 28 ? 2 : 0;
  ValueId x = net.op(
      "relu",
      {net.conv2d(images, "conv1", {.filters = 6, .kernel = 5, .padding = padding, .bias = Bias::kUniform})});
  x = net.max_pool2d(x, 2, 2);
  x = net.op("relu",
             {net.conv2d(x, "conv2", {.filters = 16, .kernel = 5, .padding = 0, .bias = Bias::kUniform})});
  x = net.max_pool2d(x, 2, 2);
  const Shape s = net.shape(x);
  x = net.reshape(x, {s[0], s.elements(1, 4)});
  x = net.dropout(net.op("relu", {linear(net, x, "fc1", 120, TensorSplit::Side::kOutputs)}));
  x = net.dropout(net.op("relu", {linear(net, x, "fc2", 84, TensorSplit::Side::kOutputs)}));
  return linear(net, x, "fc3", options.classes, TensorSplit::Side::kInputs);
}

}  // namespace trireme
