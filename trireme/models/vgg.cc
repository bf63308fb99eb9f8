// VGG of 11, 13, 16 or 19 layers (configurations A, B, D and E of Simonyan and Zisserman), without norms,
// with torchvision's names. Five pools halve the image, so 32×32 is the smallest; published sizes are those
// of 224×224.
#include "trireme/base/error.h"
#include "trireme/models/model.h"
#include "trireme/models/plain_cnn.h"

namespace trireme {
namespace vgg {
namespace {

// Convolutions before each of the five pools; none for a depth that there is not.
std::vector<int64_t> convolutions(int64_t layers) {
  switch (layers) {
    case 11:
      return {1, 1, 2, 2, 2};
    case 13:
      return {2, 2, 2, 2, 2};
    case 16:
      return {2, 2, 3, 3, 3};
    case 19:
      return {2, 2, 4, 4, 4};
    default:
      return {};
  }
}

std::vector<std::string> problems(const ModelOptions& options) {
  if (!convolutions(options.layers).empty()) return {};
  return {fmt::format("there is no vgg of model.layers = {}; 11, 13, 16 and 19 expected", options.layers)};
}

ValueId logits(Network& net, const ModelOptions& given, ValueId images) {
  if (const std::vector<std::string> found = problems(given); !found.empty()) throw Error(found[0]);
  const ModelOptions options = plain_cnn_sizes(given);
  PlainCnn cnn(net, images);
  int64_t filters = options.channels;
  for (const int64_t count : convolutions(options.layers)) {
    for (int64_t i = 0; i < count; ++i)
      cnn.convolve({.filters = filters, .kernel = 3}, i + 1 == count ? CnnPool{2, 2} : CnnPool{});
    filters = std::min(2 * filters, 8 * options.channels);
  }
  return cnn.classify(options, PlainCnn::Dropout::kAfter);
}

}  // namespace
}  // namespace vgg

const ModelRecord& vgg_model() {
  using namespace vgg;
  static const ModelRecord record{
      .family = "vgg",
      .input = InputKind::kImages,
      .logits = logits,
      .weight_settings = {"model.layers", "model.channels", "model.feed_forward"},
      .problems = problems,
      .defaults = {{"model.layers", "16"}, {"optim.lr", "0.0001"}},
      .with_automatic_sizes = plain_cnn_sizes,
      .usual_sample =
          [](const ModelOptions&) {
            return Shape{3, 224, 224};
          },
  };
  return record;
}

}  // namespace trireme
