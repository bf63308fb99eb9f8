// See plain_cnn.h.
#include "trireme/models/plain_cnn.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"

namespace trireme {

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

ModelOptions plain_cnn_sizes(ModelOptions options) {
  if (options.channels == 0) options.channels = 64;
  if (options.feed_forward == 0) options.feed_forward = 4096;
  return options;
}

}  // namespace trireme
