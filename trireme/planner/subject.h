// What is to be planned: a training step as far as the planner must know it. Whoever knows the model makes it
// (run/plan_subject.h); the planner sees Programs, and nothing of models.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trireme/plan/combinations.h"
#include "trireme/sim/simulate.h"

namespace trireme::planner {

// The microbatches of a step.
struct BatchShape {
  int64_t rows = 1;  // of one microbatch, over all ranks
  int64_t microbatches = 1;
};

struct Subject {
  int64_t batch = 1;           // rows of a step
  double samples_per_row = 1;  // tokens, or images
  std::string sample = "tokens";
  DType precision = DType::f32;
  Features features = {};  // of the settings, by which plans are left out (plan/combinations.h)

  std::vector<std::string> units;  // the parts that the model may be cut between, in order
  // A small model that has a unit of every kind: its units, and for each unit of the whole model the one like
  // it. The same model where no units are alike.
  std::vector<std::string> small_units;
  std::vector<int> kind;

  // What presets can do along the axis tensor: none where the model says nothing of it.
  std::vector<std::string> tensor_presets;
  int64_t tensor_divides = 1;  // the ranks of the axis tensor divide this (heads)

  // Programs of the whole model or of the small one under a plan. Throws Error where the plan can not work.
  // May be called by several threads; what it returns is for one of them.
  enum class Model { kWhole, kSmall };
  std::function<sim::ProgramSource(const Plan&, const BatchShape&, Model)> programs;
  // Forward and backward of a microbatch of so many rows, of the small model on whole tensors: what layouts
  // are derived from. Null: presets are all that is known of the axis tensor.
  std::function<Graph(int64_t rows)> graph;
  // FLOPs that the model asks for in a step.
  std::function<double()> model_flops = [] { return 0.0; };
};

}  // namespace trireme::planner
