// Residual networks. model.layers = 20, 56, 110 (6n + 2): the CIFAR form of He et al. with three stages of
// basic blocks and parameter-free shortcuts (subsampling and zero channels); 18 and 50: the ImageNet form
// with torchvision's names.
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/train/models/model.h"

namespace trireme {
namespace {

ValueId relu(Network& net, ValueId x) {
  return net.op("relu", {x});
}

ValueId conv_norm(Network& net, ValueId x, const std::string& conv, const std::string& norm,
                  Network::Conv options) {
  return net.batch_norm(net.conv2d(x, conv, options), norm);
}

ValueId stem(Network& net, ValueId images, Network::Conv options) {
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

// Shortcut A of the paper: every stride-th pixel, new channels zero.
ValueId shortcut_a(Network& net, ValueId x, int64_t filters, int64_t stride) {
  if (stride > 1) {
    const auto pair = [](int64_t value) { return std::vector<int64_t>{value, value}; };
    x = net.op("avg_pool2d", {x}, {{"kernel", pair(1)}, {"stride", pair(stride)}, {"padding", pair(0)}});
  }
  const int64_t extra = filters - net.shape(x)[1];
  if (extra == 0) return x;
  return net.op("pad", {x}, {{"dim", int64_t{1}}, {"low", extra / 2}, {"high", extra - extra / 2}});
}

ValueId cifar_resnet(Network& net, const ModelOptions& options, ValueId images) {
  ValueId x = stem(net, images, {.filters = 16, .kernel = 3});
  for (int64_t stage = 0; stage < 3; ++stage) {
    const int64_t filters = 16 << stage;
    for (int64_t block = 0; block < (options.layers - 2) / 6; ++block) {
      const std::string name = fmt::format("layer{}.{}", stage + 1, block);
      const Builder::Scope scope = net.scope(name);
      const int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      ValueId y = relu(net, conv_norm(net, x, name + ".conv1", name + ".bn1",
                                      {.filters = filters, .kernel = 3, .stride = stride}));
      y = conv_norm(net, y, name + ".conv2", name + ".bn2", {.filters = filters, .kernel = 3});
      x = relu(net, net.op("add", {y, shortcut_a(net, x, filters, stride)}));
    }
  }
  return average_and_classify(net, x, "linear", options.classes);
}

// One block of ImageNet's ResNets: basic (two 3×3) or bottleneck (1×1, 3×3, 1×1 with four times the filters).
ValueId imagenet_block(Network& net, ValueId x, const std::string& name, int64_t filters, int64_t stride,
                       bool bottleneck) {
  const Builder::Scope block = net.scope(name);
  const int64_t outputs = bottleneck ? 4 * filters : filters;
  ValueId y = x;
  if (bottleneck) {
    y = relu(net, conv_norm(net, y, name + ".conv1", name + ".bn1", {.filters = filters, .kernel = 1}));
    y = relu(net, conv_norm(net, y, name + ".conv2", name + ".bn2",
                            {.filters = filters, .kernel = 3, .stride = stride}));
    y = conv_norm(net, y, name + ".conv3", name + ".bn3", {.filters = outputs, .kernel = 1});
  } else {
    y = relu(net, conv_norm(net, y, name + ".conv1", name + ".bn1",
                            {.filters = filters, .kernel = 3, .stride = stride}));
    y = conv_norm(net, y, name + ".conv2", name + ".bn2", {.filters = filters, .kernel = 3});
  }
  if (net.shape(x)[1] != outputs || stride != 1) {
    x = conv_norm(net, x, name + ".downsample.0", name + ".downsample.1",
                  {.filters = outputs, .kernel = 1, .stride = stride});
  }
  return relu(net, net.op("add", {y, x}));
}

ValueId imagenet_resnet(Network& net, const ModelOptions& options, ValueId images) {
  const bool bottleneck = options.layers == 50;
  const int64_t blocks18[] = {2, 2, 2, 2}, blocks50[] = {3, 4, 6, 3};
  ValueId x = stem(net, images, {.filters = 64, .kernel = 7, .stride = 2});
  {
    const Builder::Scope part = net.scope("stem");
    x = net.max_pool2d(x, 3, 2, 1);
  }
  for (int64_t stage = 0; stage < 4; ++stage) {
    for (int64_t block = 0; block < (bottleneck ? blocks50 : blocks18)[stage]; ++block) {
      x = imagenet_block(net, x, fmt::format("layer{}.{}", stage + 1, block), 64 << stage,
                         stage > 0 && block == 0 ? 2 : 1, bottleneck);
    }
  }
  return average_and_classify(net, x, "fc", options.classes);
}

bool for_large_images(const ModelOptions& options) {
  return options.layers == 18 || options.layers == 50;
}

ValueId logits(Network& net, const ModelOptions& options, ValueId images) {
  if (for_large_images(options)) return imagenet_resnet(net, options, images);
  if (options.layers >= 8 && (options.layers - 2) % 6 == 0) return cifar_resnet(net, options, images);
  throw_error(
      "there is no resnet of {} layers; 20, 56, 110 (6n + 2) for small images, 18 and 50 for large ones",
      options.layers);
}

}  // namespace

const ModelRecord& resnet_model() {
  static const ModelRecord record{
      .family = "resnet",
      .input = InputKind::kImages,
      .logits = logits,
      .weight_settings = {"model.layers"},
      .usual_sample =
          [](const ModelOptions& options) {
            return for_large_images(options) ? Shape{3, 224, 224} : Shape{3, 32, 32};
          },
  };
  return record;
}

}  // namespace trireme
