// What residual networks share: convolutions with a norm, the head, and the form for large images with four
// stages, of which resnet and wide_resnet are settings. Parameters have torchvision's names.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "trireme/models/network.h"
#include "trireme/models/options.h"

namespace trireme {

ValueId relu(Network& net, ValueId x);
// A convolution without bias, and the norm of its results.
ValueId conv_norm(Network& net, ValueId x, const std::string& conv, const std::string& norm,
                  Network::Conv options);
// `conv1`, `bn1` and a ReLU in a scope of their own.
ValueId residual_stem(Network& net, ValueId images, Network::Conv options);
// The mean over pixels, and a linear layer.
ValueId average_and_classify(Network& net, ValueId x, const std::string& name, int64_t classes);

// Four stages, each with twice the filters and half the pixels of the one before.
struct StagedForm {
  std::array<int64_t, 4> blocks = {};
  // Two 3×3; or 1×1, 3×3 and 1×1 with four times the filters.
  enum class Block { kBasic, kBottleneck } block = Block::kBasic;
  int64_t channels = 64;  // filters of the first stage
  int64_t width = 1;      // times as many filters inside a bottleneck
  // Which convolutions inside a bottleneck are wider: the first two (torchvision), or the 3×3 alone (the
  // Wide-ResNet that Alpa was measured with).
  enum class Widened { kFirstTwo, kSecond } widened = Widened::kFirstTwo;
  // 7×7 with stride 2 and a pool; or 3×3 and none, for small images.
  enum class Stem { k7x7, k3x3 } stem = Stem::k7x7;
};

// The form of a depth that has one: 18, 34, 50, 101.
std::optional<StagedForm> staged_form(int64_t layers);
ValueId staged_residual_network(Network& net, const StagedForm& form, ValueId images, int64_t classes);

}  // namespace trireme
