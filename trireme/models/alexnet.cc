// AlexNet in the form of "One weird trick" (one tower, 64 filters in the first convolution), with
// torchvision's names. Small images, of less than 64 pixels a side, have 3×3 convolutions instead of the
// first two and pools of 2×2, so that something is left for the fully connected layers; published sizes are
// those of 224×224.
#include <algorithm>

#include "trireme/models/model.h"
#include "trireme/models/plain_cnn.h"

namespace trireme {
namespace alexnet {
namespace {

ValueId logits(Network& net, const ModelOptions& given, ValueId images) {
  const ModelOptions options = plain_cnn_sizes(given);
  const Shape in = net.shape(images);
  const bool small = std::min(in[2], in[3]) < 64;
  const int64_t c = options.channels;
  const CnnPool pool = small ? CnnPool{2, 2} : CnnPool{3, 2};
  PlainCnn cnn(net, images);
  cnn.convolve(small ? Network::Conv{.filters = c, .kernel = 3}
                     : Network::Conv{.filters = c, .kernel = 11, .stride = 4, .padding = 2},
               pool);
  cnn.convolve({.filters = 3 * c, .kernel = small ? 3 : 5}, pool);
  cnn.convolve({.filters = 6 * c, .kernel = 3});
  cnn.convolve({.filters = 4 * c, .kernel = 3});
  cnn.convolve({.filters = 4 * c, .kernel = 3}, pool);
  return cnn.classify(options, PlainCnn::Dropout::kBefore);
}

}  // namespace
}  // namespace alexnet

const ModelRecord& alexnet_model() {
  using namespace alexnet;
  static const ModelRecord record{
      .family = "alexnet",
      .input = InputKind::kImages,
      .logits = logits,
      .weight_settings = {"model.channels", "model.feed_forward"},
      .defaults = {{"optim.lr", "0.0003"}},
      .with_automatic_sizes = plain_cnn_sizes,
      .usual_sample =
          [](const ModelOptions&) {
            return Shape{3, 224, 224};
          },
  };
  return record;
}

}  // namespace trireme
