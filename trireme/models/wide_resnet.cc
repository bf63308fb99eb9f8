// Wide residual networks. model.layers = 16, 28, 40 (6n + 4): those of Zagoruyko and Komodakis for small
// images, with norms before convolutions; 50 and 101: the ones that Alpa was measured with, whose 3×3
// convolutions are model.width times as wide. (torchvision's wide_resnet50_2 is a resnet with model.width
// = 2.)
#include "trireme/base/error.h"
#include "trireme/models/model.h"
#include "trireme/models/residual.h"

namespace trireme {
namespace wide_resnet {
namespace {

ValueId norm_relu(Network& net, ValueId x, const std::string& name) {
  return relu(net, net.batch_norm(x, name));
}

// Where filters or pixels change, the shortcut too starts from the normed input.
ValueId wide_block(Network& net, ValueId x, const std::string& name, int64_t filters, int64_t stride) {
  const Builder::Scope block = net.scope(name);
  const ValueId normed = norm_relu(net, x, name + ".bn1");
  ValueId y = net.conv2d(normed, name + ".conv1", {.filters = filters, .kernel = 3, .stride = stride});
  y = net.dropout(norm_relu(net, y, name + ".bn2"));
  y = net.conv2d(y, name + ".conv2", {.filters = filters, .kernel = 3});
  const bool same = net.shape(x)[1] == filters && stride == 1;
  return net.op("add", {y, same ? x
                                : net.conv2d(normed, name + ".convShortcut",
                                             {.filters = filters, .kernel = 1, .stride = stride})});
}

ModelOptions sizes(ModelOptions options) {
  if (options.width == 0) options.width = 2;
  if (options.channels == 0) options.channels = staged_form(options.layers) ? 64 : 16;
  return options;
}

ValueId small_images(Network& net, const ModelOptions& options, ValueId images) {
  ValueId x = net.conv2d(images, "conv1", {.filters = options.channels, .kernel = 3});
  for (int64_t stage = 0; stage < 3; ++stage) {
    for (int64_t block = 0; block < (options.layers - 4) / 6; ++block) {
      x = wide_block(net, x, fmt::format("block{}.layer.{}", stage + 1, block),
                     (options.channels * options.width) << stage, stage > 0 && block == 0 ? 2 : 1);
    }
  }
  {
    const Builder::Scope head = net.scope("fc");
    x = norm_relu(net, x, "bn1");
  }
  return average_and_classify(net, x, "fc", options.classes);
}

std::vector<std::string> problems(const ModelOptions& options) {
  const std::optional<StagedForm> form = staged_form(options.layers);
  const bool known = form ? form->block == StagedForm::Block::kBottleneck
                          : options.layers >= 10 && (options.layers - 4) % 6 == 0;
  if (known) return {};
  return {fmt::format(
      "there is no wide_resnet of model.layers = {}; 16, 28, 40 (6n + 4) for small images, 50 and "
      "101 for large ones",
      options.layers)};
}

ValueId logits(Network& net, const ModelOptions& given, ValueId images) {
  if (const std::vector<std::string> found = problems(given); !found.empty()) throw Error(found[0]);
  const ModelOptions options = sizes(given);
  std::optional<StagedForm> form = staged_form(options.layers);
  if (!form) return small_images(net, options, images);
  form->channels = options.channels;
  form->width = options.width;
  form->widened = StagedForm::Widened::kSecond;
  return staged_residual_network(net, *form, images, options.classes);
}

}  // namespace
}  // namespace wide_resnet

const ModelRecord& wide_resnet_model() {
  using namespace wide_resnet;
  static const ModelRecord record{
      .family = "wide_resnet",
      .input = InputKind::kImages,
      .logits = logits,
      .weight_settings = {"model.layers", "model.channels", "model.width"},
      .problems = problems,
      .defaults = {{"model.layers", "16"}, {"optim.lr", "0.001"}},
      .with_automatic_sizes = sizes,
      .usual_sample =
          [](const ModelOptions& options) {
            return staged_form(options.layers) ? Shape{3, 224, 224} : Shape{3, 32, 32};
          },
  };
  return record;
}

}  // namespace trireme
