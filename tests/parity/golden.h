// A recorded training run (golden/CASE.json, made by make_golden.py) and the means to repeat it: the same
// starting weights and batches, computed by the formulas of philox.py.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/train/parity/states.h"
#include "trireme/train/trainer.h"

namespace trireme::parity {

struct GoldenTensor {
  Shape shape;
  double shift = 0, scale = 0;  // it starts at shift + scale · (uniform in [−1, 1))
  // After the last step:
  double norm = 0;
  double moved = 0;             // norm of the difference from the start
  double largest = 0;           // magnitude
  std::vector<double> samples;  // evenly spread elements
};

struct Golden {
  uint64_t seed = 0;
  int64_t batches = 0;  // different ones; step s takes batch s % batches
  double ignored = 0;   // chance of a target of the last row not to count
  ModelOptions model;
  TrainOptions train;
  OptimOptions optim;
  StepShape shape;
  std::vector<double> rates, losses, norms;  // per step
  Evaluation evaluation;                     // after the last step, on the first rows of batch 0
  std::map<std::string, GoldenTensor> tensors;

  int64_t steps() const { return static_cast<int64_t>(losses.size()); }
};

std::vector<std::string> golden_names();
Golden read_golden(const std::string& name);

// The batch of a step: shape.rows · accumulate rows.
Batch make_batch(const Golden& golden, int64_t step);

// Sets weights and running statistics to their start in the golden and optimizer states to zero. Throws an
// Error unless the golden names exactly the tensors that the model has, with the same shapes.
void start(Trainer& trainer, const Golden& golden);

std::vector<float> starting_values(const Golden& golden, const std::string& name);

// Weights, running statistics and states of the optimizer.
States read_states(Trainer& trainer);

// Steps [first, last) with the golden's batches and rates; past its end they begin again.
std::vector<StepResult> train(Trainer& trainer, const Golden& golden, int64_t first, int64_t last);

}  // namespace trireme::parity
