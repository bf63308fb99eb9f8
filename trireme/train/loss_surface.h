// A model's loss on data that stays the same, as a function of its weights: the gradient at any weights, and
// the loss along the straight line between two models.
//
// Gradients are those of training, on the batches as they are: batch norms take the statistics of each batch,
// so that running statistics play no part. Losses along the line are those of evaluation. There the buffers
// matter, and those of two models do not mix: running statistics half way between two models are not those of
// the model half way. So buffers that a forward pass renews are estimated again at every point, on the
// batches; other buffers are interpolated as weights are.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "trireme/data/batch.h"
#include "trireme/train/curvature.h"
#include "trireme/train/trainer.h"

namespace trireme {

// Weights and buffers by their names in checkpoints.
using ModelStates = std::vector<std::pair<std::string, std::vector<float>>>;

// `trainer` is of one rank, without dropout for gradients that are a function of the weights alone, and every
// batch has all the rows of its step. Both outlive it. The trainer's weights and buffers change.
class LossSurface {
 public:
  LossSurface(Trainer& trainer, std::span<Batch> batches);

  ModelStates states();
  void set_states(const ModelStates& states);

  // The trained parameters, one after another: those that are there, of states() or of the last slope().
  std::vector<float> weights();
  struct Slope {
    double loss = 0;               // mean over targets, as training has it
    std::vector<double> gradient;  // of that
  };
  Slope slope(std::span<const float> weights);

  // The states of weights w₀ + a (w₁ − w₀), with buffers as said above. Both have the same tensors.
  void set_between(const ModelStates& first, const ModelStates& second, double a);
  // Of the states that are there, on any batches.
  Evaluation evaluate(std::span<Batch> batches);

 private:
  void estimate_statistics();

  Trainer& trainer_;
  std::span<Batch> batches_;
  std::vector<std::string> trained_, kept_, renewed_;  // renewed_: among kept_, those of a forward pass
};

}  // namespace trireme
