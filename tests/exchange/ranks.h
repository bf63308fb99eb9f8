// A small model trained for some steps by ranks that are threads, with all that went into each update and
// came out.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/train/trainer.h"

namespace trireme::testing {

using Floats = std::vector<float>;

struct StepRecord {
  // By parameter. Gradients are those of each rank, before they are added up, as the mean has them.
  std::map<std::string, Floats> weights_before, weights_after;
  std::map<std::string, std::vector<Floats>> gradients;
  // Of each rank, by the names of states.
  std::map<std::string, std::vector<Floats>> kept_before, kept_after;
  StepResult result;
  double bytes_sent = 0;      // by all ranks
  double bytes_promised = 0;  // by their programs
};

struct History {
  std::map<std::string, Shape> shapes;  // of parameters
  std::vector<StepRecord> steps;
};

struct Training {
  ModelOptions model = {};
  TrainOptions train = {};
  OptimOptions optim = {};
  StepShape shape = {};
  int64_t steps = 3;
  double rate = 0.5;
  double loss_scale = 1;
};

// An mlp of odd sizes, by plain gradient descent without clipping; a gpt whose sizes are multiples of eight;
// and a residual network with batch norms.
Training small_mlp();
Training small_gpt();
Training small_resnet();

// A batch of its samples, another one for each step.
Batch random_batch(const Training& training, int64_t step);

Plan plan_of(const std::string& mesh, const std::string& exchange, const std::string& preset = "data");

// Checks on the way that replicas have the same weights. Gradients are not read where ranks have parts of
// them.
History record_of(const Plan& plan, const Training& training);

// Weights after the last step.
const std::map<std::string, Floats>& weights(const History& run);

}  // namespace trireme::testing
