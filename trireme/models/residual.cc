// See residual.h.
#include "trireme/models/residual.h"

#include <fmt/format.h>

#include <cmath>

namespace trireme {
namespace {

using Block = StagedForm::Block;

ValueId bottleneck(Network& net, const StagedForm& form, ValueId x, const std::string& name, int64_t filters,
                   int64_t stride) {
  const int64_t wide = filters * form.width;
  const int64_t first = form.widened == StagedForm::Widened::kFirstTwo ? wide : filters;
  ValueId y = relu(net, conv_norm(net, x, name + ".conv1", name + ".bn1", {.filters = first, .kernel = 1}));
  y = relu(net, conv_norm(net, y, name + ".conv2", name + ".bn2",
                          {.filters = wide, .kernel = 3, .stride = stride}));
  return conv_norm(net, y, name + ".conv3", name + ".bn3", {.filters = 4 * filters, .kernel = 1});
}

ValueId basic(Network& net, ValueId x, const std::string& name, int64_t filters, int64_t stride) {
  const ValueId y = relu(net, conv_norm(net, x, name + ".conv1", name + ".bn1",
                                        {.filters = filters, .kernel = 3, .stride = stride}));
  return conv_norm(net, y, name + ".conv2", name + ".bn2", {.filters = filters, .kernel = 3});
}

ValueId residual_block(Network& net, const StagedForm& form, ValueId x, const std::string& name,
                       int64_t filters, int64_t stride) {
  const Builder::Scope block = net.scope(name);
  const ValueId y = form.block == Block::kBottleneck ? bottleneck(net, form, x, name, filters, stride)
                                                     : basic(net, x, name, filters, stride);
  const int64_t outputs = net.shape(y)[1];
  if (net.shape(x)[1] != outputs || stride != 1) {
    x = conv_norm(net, x, name + ".downsample.0", name + ".downsample.1",
                  {.filters = outputs, .kernel = 1, .stride = stride});
  }
  return relu(net, net.op("add", {y, x}));
}

}  // namespace

ValueId relu(Network& net, ValueId x) {
  return net.op("relu", {x});
}

ValueId conv_norm(Network& net, ValueId x, const std::string& conv, const std::string& norm,
                  Network::Conv options) {
  return net.batch_norm(net.conv2d(x, conv, options), norm);
}

ValueId residual_stem(Network& net, ValueId images, Network::Conv options) {
  const Builder::Scope part = net.scope("stem");
  return relu(net, conv_norm(net, images, "conv1", "bn1", options));
}

ValueId average_and_classify(Network& net, ValueId x, const std::string& name, int64_t classes) {
  const Builder::Scope part = net.scope(name);
  const ValueId pooled = net.op("mean", {x}, {{"dims", std::vector<int64_t>{2, 3}}});
  const double bound = 1 / std::sqrt(static_cast<double>(net.shape(pooled).back()));
  return net.linear(pooled, name, classes, Network::Store::kOutIn, Init::uniform(bound), Bias::kUniform,
                    {TensorSplit::Side::kInputs});
}

std::optional<StagedForm> staged_form(int64_t layers) {
  switch (layers) {
    case 18:
      return StagedForm{.blocks = {2, 2, 2, 2}};
    case 34:
      return StagedForm{.blocks = {3, 4, 6, 3}};
    case 50:
      return StagedForm{.blocks = {3, 4, 6, 3}, .block = Block::kBottleneck};
    case 101:
      return StagedForm{.blocks = {3, 4, 23, 3}, .block = Block::kBottleneck};
    default:
      return std::nullopt;
  }
}

ValueId staged_residual_network(Network& net, const StagedForm& form, ValueId images, int64_t classes) {
  const bool small = form.stem == StagedForm::Stem::k3x3;
  ValueId x = residual_stem(net, images,
                            {.filters = form.channels, .kernel = small ? 3 : 7, .stride = small ? 1 : 2});
  if (!small) {
    const Builder::Scope part = net.scope("stem");
    x = net.max_pool2d(x, 3, 2, 1);
  }
  for (int64_t stage = 0; stage < 4; ++stage) {
    for (int64_t block = 0; block < form.blocks[stage]; ++block) {
      x = residual_block(net, form, x, fmt::format("layer{}.{}", stage + 1, block), form.channels << stage,
                         stage > 0 && block == 0 ? 2 : 1);
    }
  }
  return average_and_classify(net, x, "fc", classes);
}

}  // namespace trireme
