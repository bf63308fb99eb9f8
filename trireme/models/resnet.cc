// Residual networks. model.layers = 20, 56, 110 (6n + 2): the CIFAR form of He et al. with three stages of
// basic blocks and parameter-free shortcuts (subsampling and zero channels); 18, 34, 50 and 101: the ImageNet
// form with torchvision's names, which with model.stem = 3x3 suits small images too.
#include "trireme/base/error.h"
#include "trireme/models/model.h"
#include "trireme/models/residual.h"

namespace trireme {
namespace resnet {
namespace {

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
  ValueId x = residual_stem(net, images, {.filters = 16, .kernel = 3});
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

bool is_cifar_form(const ModelOptions& options) {
  return !staged_form(options.layers) && options.layers >= 8 && (options.layers - 2) % 6 == 0;
}

ModelOptions sizes(ModelOptions options) {
  const bool staged = staged_form(options.layers).has_value();
  if (options.channels == 0 && staged) options.channels = 64;
  if (options.width == 0) options.width = 1;
  if (options.stem == "auto") options.stem = staged ? "7x7" : "3x3";
  return options;
}

std::vector<std::string> problems(const ModelOptions& options) {
  const std::optional<StagedForm> form = staged_form(options.layers);
  std::vector<std::string> found;
  if (!form && !is_cifar_form(options)) {
    found.push_back(
        fmt::format("there is no resnet of model.layers = {}; 20, 56, 110 (6n + 2) for small images, 18, 34, "
                    "50 and 101 for large ones",
                    options.layers));
  }
  if (!form && (options.stem == "7x7" || options.channels > 0)) {
    found.push_back(fmt::format(
        "model.stem and model.channels are for a resnet of 18, 34, 50 or 101 layers; this one has {}",
        options.layers));
  }
  if (options.width > 1 && (!form || form->block == StagedForm::Block::kBasic)) {
    found.push_back(fmt::format(
        "model.width = {} makes bottlenecks wider, which resnets of 50 and 101 layers have; this one has {} "
        "layers, and wide_resnet is the family of others",
        options.width, options.layers));
  }
  return found;
}

ValueId logits(Network& net, const ModelOptions& given, ValueId images) {
  if (const std::vector<std::string> found = problems(given); !found.empty()) throw Error(found[0]);
  const ModelOptions options = sizes(given);
  std::optional<StagedForm> form = staged_form(options.layers);
  if (!form) return cifar_resnet(net, options, images);
  form->channels = options.channels;
  form->width = options.width;
  if (options.stem == "3x3") form->stem = StagedForm::Stem::k3x3;
  return staged_residual_network(net, *form, images, options.classes);
}

}  // namespace
}  // namespace resnet

const ModelRecord& resnet_model() {
  using namespace resnet;
  static const ModelRecord record{
      .family = "resnet",
      .input = InputKind::kImages,
      .logits = logits,
      .weight_settings = {"model.layers", "model.channels", "model.width", "model.stem"},
      .problems = problems,
      .defaults = {{"model.layers", "20"}, {"optim.lr", "0.001"}},
      .with_automatic_sizes = sizes,
      .usual_sample =
          [](const ModelOptions& options) {
            return staged_form(options.layers) && options.stem != "3x3" ? Shape{3, 224, 224}
                                                                        : Shape{3, 32, 32};
          },
  };
  return record;
}

}  // namespace trireme
