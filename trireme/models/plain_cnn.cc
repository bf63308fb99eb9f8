// Convolutions with ReLU and pools one after another, then three fully connected layers. Parameters have
// torchvision's names (`features.N`, `classifier.N`); published sizes are those of 224×224.
//   alexnet  in the form of "One weird trick" (one tower, 64 filters in the first convolution). Small images,
//   of
//            less than 64 pixels a side, have 3×3 convolutions instead of the first two and pools of 2×2, so
//            that something is left for the fully connected layers.
//   vgg      of 11, 13, 16 or 19 layers (configurations A, B, D and E of Simonyan and Zisserman), without
//   norms.
//            Five pools halve the image, so 32×32 is the smallest.
#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/models/model.h"
#include "trireme/models/network.h"

namespace trireme {
namespace plain_cnn {
namespace {

struct CnnPool {
  int64_t kernel = 0, stride = 0;  // kernel 0: none
};

// Layers are numbered as torchvision counts them: each ReLU, pool and dropout is one.
class PlainCnn {
 public:
  PlainCnn(Network& net, ValueId images) : net_(net), x_(images) {}

  // Throws Error where pools have left too few pixels.
  void convolve(Network::Conv conv, CnnPool pool = {});
  // model.feed_forward features in the first two layers, with dropout before them or after them.
  enum class Dropout { kBefore, kAfter };
  ValueId classify(const ModelOptions& options, Dropout dropout);

 private:
  Network& net_;
  ValueId x_;
  int64_t layer_ = 0;
};

void PlainCnn::convolve(Network::Conv conv, CnnPool pool) {
  const std::string name = fmt::format("features.{}", layer_);
  const Builder::Scope scope = net_.scope(name);
  const Shape in = net_.shape(x_);
  const int64_t padding = conv.padding >= 0 ? conv.padding : (conv.kernel - 1) / 2;
  const int64_t smallest = std::min(in[2], in[3]);
  const int64_t left =
      smallest + 2 * padding < conv.kernel ? 0 : (smallest + 2 * padding - conv.kernel) / conv.stride + 1;
  if (left < std::max<int64_t>(1, pool.kernel)) {
    throw_error("images are too small: {} pixels are left of a side before {}; larger ones are needed",
                smallest, name);
  }
  // He's initialisation: without norms, PyTorch's default lets signals fade within a few layers.
  conv.bias = Bias::kZeros;
  x_ = net_.op("relu", {net_.conv2d(x_, name, conv)});
  layer_ += 2;
  if (pool.kernel == 0) return;
  x_ = net_.max_pool2d(x_, pool.kernel, pool.stride);
  layer_ += 1;
}

ValueId PlainCnn::classify(const ModelOptions& options, Dropout dropout) {
  using Side = TensorSplit::Side;
  const auto linear = [&](ValueId x, const std::string& name, int64_t outputs, Side side) {
    const double fan_in = static_cast<double>(net_.shape(x).back());
    return net_.linear(x, name, outputs, Network::Store::kOutIn, Init::normal(std::sqrt(2 / fan_in)),
                       Bias::kZeros, {side});
  };
  ValueId x = net_.flatten(x_);
  const bool before = dropout == Dropout::kBefore;
  for (const char* name :
       {before ? "classifier.1" : "classifier.0", before ? "classifier.4" : "classifier.3"}) {
    const Builder::Scope scope = net_.scope(name);
    if (before) x = net_.dropout(x);
    x = net_.op("relu", {linear(x, name, options.feed_forward, Side::kOutputs)});
    if (!before) x = net_.dropout(x);
  }
  return linear(x, "classifier.6", options.classes, Side::kInputs);
}

// The published ones: 64 filters in the first convolution, 4096 features in fully connected layers.
ModelOptions sizes(ModelOptions options) {
  if (options.channels == 0) options.channels = 64;
  if (options.feed_forward == 0) options.feed_forward = 4096;
  return options;
}

Shape published_sample(const ModelOptions&) {
  return {3, 224, 224};
}

ValueId alexnet_logits(Network& net, const ModelOptions& given, ValueId images) {
  const ModelOptions options = sizes(given);
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

std::vector<std::string> vgg_problems(const ModelOptions& options) {
  if (!convolutions(options.layers).empty()) return {};
  return {fmt::format("there is no vgg of model.layers = {}; 11, 13, 16 and 19 expected", options.layers)};
}

ValueId vgg_logits(Network& net, const ModelOptions& given, ValueId images) {
  if (const std::vector<std::string> found = vgg_problems(given); !found.empty()) throw Error(found[0]);
  const ModelOptions options = sizes(given);
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
}  // namespace plain_cnn

const ModelRecord& alexnet_model() {
  using namespace plain_cnn;
  static const ModelRecord record{
      .family = "alexnet",
      .input = InputKind::kImages,
      .logits = alexnet_logits,
      .weight_settings = {"model.channels", "model.feed_forward"},
      .defaults = {{"optim.lr", "0.0003"}},
      .with_automatic_sizes = sizes,
      .usual_sample = published_sample,
  };
  return record;
}

const ModelRecord& vgg_model() {
  using namespace plain_cnn;
  static const ModelRecord record{
      .family = "vgg",
      .input = InputKind::kImages,
      .logits = vgg_logits,
      .weight_settings = {"model.layers", "model.channels", "model.feed_forward"},
      .problems = vgg_problems,
      .defaults = {{"model.layers", "16"}, {"optim.lr", "0.0001"}},
      .with_automatic_sizes = sizes,
      .usual_sample = published_sample,
  };
  return record;
}

}  // namespace trireme
