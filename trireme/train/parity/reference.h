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
  Model model;  // vocab or classes is set
  TrainOptions train;
  OptimOptions optim;
  StepShape shape;
  std::vector<Batch> batches;  // one a step
  std::vector<double> rates;   // one a step
};

// Per element of each tensor: how far rounding may move it.
using Bounds = States;

// The program as it trains, or with every 16-bit value held in f32 (passes/widen.h).
enum class Width { kAsItIs, kWidened };
Program in_width(Program program, Width width, const Device& device);

// How many noisy runs bounds rest on. The largest move of a few is a low estimate of the largest that there
// is, and of a scalar all of them may be small by chance; so what seems to be off is judged again by more.
enum class Samples { kFew, kMany };

class Reference {
 public:
  // Trains. Throws Error as Trainer does.
  explicit Reference(Training training, Width width = Width::kAsItIs);

  const Training& training() const { return training_; }
  Width width() const { return width_; }
  // The same training widened; made when first asked for.
  Reference& widened();
  int64_t steps() const { return static_cast<int64_t>(training_.batches.size()); }
  const Program& program() const { return trainer_.program(); }

  struct Step {
    States before;  // weights, buffers, moments; those after a step are those before the next
    States left;    // by the forward and backward parts
    StepResult result;
    double loss_scale = 1;
    int64_t scale_age = 0;
    int64_t number = 0;  // for random numbers and the optimizer, from 0
    double rate = 0;
  };
  // steps() + 1 of them; the last one has only `before`.
  const std::vector<Step>& record() const { return record_; }
  const Evaluation& evaluation() const { return evaluation_; }  // with the last states, on the last batch

  // Another step in the place of one, from other states: for its update alone, or made anew on a batch too.
  void replace(int64_t step, int64_t number, double rate, States before);
  void replace(int64_t step, int64_t number, double rate, States before, Batch batch);

  // How far rounding may move what a step leaves for its update, or the loss of the evaluation. Found by
  // experiment when first asked for.
  const Bounds& left_bounds(int64_t step, Samples samples);
  double evaluation_bound(Samples samples);

  // The update of a step from what someone else's forward and backward parts have left.
  States update(int64_t step, const States& left);  // and what the step reports, as `loss` and `norm`
  // How far rounding may move its results, `updated`. `reach`: how far it may have moved `left` itself, see
  // Gathering.
  Bounds update_bounds(int64_t step, const States& left, const States& reach, const States& updated,
                       Samples samples);

 private:
  void restore(int64_t step);
  void forward_backward(int64_t step);
  void make(int64_t step);
  Evaluation evaluate();
  void raise(Bounds& bounds, const States& expected, const States& moved) const;

  Training training_;
  Width width_;
  std::unique_ptr<Device> device_;
  Trainer trainer_;
  RoundingNoise noise_;
  std::vector<std::string> lasting_, left_;
  std::vector<Step> record_;
  Evaluation evaluation_;
  struct Found {
    Bounds bounds;
    int samples = 0;  // that they rest on
  };
  std::map<int64_t, Found> left_bounds_;
  double evaluation_bound_ = 0;
  int evaluation_samples_ = 0;
  std::unique_ptr<Reference> widened_;
};

}  // namespace trireme::parity
