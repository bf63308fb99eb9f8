// What alexnet and vgg are made of: convolutions with ReLU and pools one after another, then three fully
// connected layers. Parameters have torchvision's names (`features.N`, `classifier.N`).
#pragma once

#include <cstdint>

#include "trireme/models/network.h"
#include "trireme/models/options.h"

namespace trireme {

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

// The published ones: 64 filters in the first convolution, 4096 features in fully connected layers.
ModelOptions plain_cnn_sizes(ModelOptions options);

}  // namespace trireme
