// What number formats lose in a step: gradients that underflow or saturate, weights that saturate, and
// updates that are lost to rounding, because they are less than half of the last digit of their weight
// ("swamping").
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/runtime/executor.h"

namespace trireme {

// How many elements of a rank's tensors of one kind, or those of several ranks added up.
struct NumberCounts {
  enum What {
    kGradients,           // as they are added up: with the loss scale, not yet divided by targets
    kZeroGradients,       // those that underflowed all the way, and those that are 0 in any format
    kSubnormalGradients,  // smaller than the smallest normal number, so that digits are lost
    kSaturatedGradients,  // at least the largest number, or not finite
    kWeights,
    kSaturatedWeights,
    kUpdates,       // of weights whose gradient on this rank is not 0
    kLostUpdates,   // the weight, in the format that it is kept in, did not change
    kLostInFormat,  // it would not have changed in the format
    kWhats
  };
  std::array<int64_t, kWhats> of = {};

  double share(What part, What whole) const {
    return of[whole] > 0 ? static_cast<double>(of[part]) / static_cast<double>(of[whole]) : 0;
  }
};

// Tensors of two dims or more; biases and gains.
enum class TensorKind { kMatrix, kVector };
inline constexpr std::array<std::string_view, 2> kTensorKindNames = {"matrices", "vectors"};
using StepNumbers = std::array<NumberCounts, kTensorKindNames.size()>;

// Counts the numbers of one rank in steps that are asked for. Copies weights and gradients to the host, which
// is why not every step should be.
class NumericHealth {
 public:
  // `format`: that of activations (train.precision), against which is counted. The executor must outlive it.
  NumericHealth(Executor& executor, DType format);

  // When gradients are there and weights are not updated yet, and when they are.
  void see_gradients();
  StepNumbers see_update();

 private:
  struct Tensor {
    const State* weight;                  // as it is kept: of a 16-bit one, the f32 master
    std::vector<const State*> gradients;  // that this rank makes
    std::vector<float> before;            // the weight; NaN where no update is expected
  };

  Executor& executor_;
  DType format_;
  std::vector<Tensor> tensors_;
  StepNumbers numbers_;
};

}  // namespace trireme
