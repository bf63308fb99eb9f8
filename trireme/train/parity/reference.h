// One rank's run, recorded step by step, and the means to ask what rounding could do to any of its steps.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trireme/train/parity/noise.h"
#include "trireme/train/parity/states.h"
#include "trireme/train/trainer.h"

namespace trireme::parity {

// What is trained, and on what.
struct Training {
  ModelOptions model;  // vocab and classes are set
  TrainOptions train;
  OptimOptions optim;
  StepShape shape;
  std::vector<Batch> batches;  // one a step
  std::vector<double> rates;   // one a step
};

// Per tensor: how far rounding may move any of its elements.
using Bounds = std::map<std::string, double, std::less<>>;

class Reference {
 public:
  // Trains. Throws Error as Trainer does.
  explicit Reference(Training training);

  const Training& training() const { return training_; }
  int64_t steps() const { return static_cast<int64_t>(training_.batches.size()); }
  const Program& program() const { return trainer_.program(); }

  struct Step {
    States before;  // weights, buffers, moments; those after a step are those before the next
    States left;    // by the forward and backward parts
    StepResult result;
    double loss_scale = 1;
    int64_t scale_age = 0;
  };
  // steps() + 1 of them; the last one has only `before`.
  const std::vector<Step>& record() const { return record_; }
  const Evaluation& evaluation() const { return evaluation_; }  // with the last states, on the last batch

  // How far rounding may move what a step leaves for its update, or the loss of the evaluation. Found by
  // experiment when first asked for.
  const Bounds& left_bounds(int64_t step);
  double evaluation_bound();

  // The update of a step from what someone else's forward and backward parts have left, and how far rounding
  // may move its results. `reach`: how far rounding may have moved `left` itself, see Gathering.
  struct Updated {
    States states;  // and what the step reports, as `loss` and `norm`
    Bounds bounds;
  };
  Updated update(int64_t step, const States& left, const States& reach);

 private:
  void restore(int64_t step);
  void forward_backward(int64_t step);
  Evaluation evaluate();

  Training training_;
  std::unique_ptr<Device> device_;
  Trainer trainer_;
  RoundingNoise noise_;
  std::vector<std::string> lasting_, left_;
  std::vector<Step> record_;
  Evaluation evaluation_;
  std::map<int64_t, Bounds> left_bounds_;
  double evaluation_bound_ = -1;
};

}  // namespace trireme::parity
