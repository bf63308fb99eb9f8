// A run that was saved, opened again by those who want its model: to generate, to export, to start from.
#pragma once

#include <string>

#include "trireme/checkpoint/checkpoint.h"
#include "trireme/models/model.h"
#include "trireme/run/options.h"

namespace trireme {

// Which checkpoint of a run.
struct CheckpointChoice {
  enum class Which { kNewest, kOfStep, kBest } which = Which::kNewest;  // kBest: see run.keep_best
  int64_t step = 0;                                                     // kOfStep

  static CheckpointChoice newest() { return {}; }
  static CheckpointChoice best() { return {Which::kBest, 0}; }
  static CheckpointChoice of_step(int64_t step) { return {Which::kOfStep, step}; }
  // "best", or the number of a step. Throws Error.
  static CheckpointChoice parse(const std::string& text);
};

struct SavedRun {
  Config config;                // of the run's folder
  Model model;                  // its model, with the vocabulary that the weights have
  LoadedCheckpoint checkpoint;  // with the weights that it leaves out, where it has adapters
};

// Throws Error when `folder` is no run's folder, or has no such checkpoint. A run of a model outside the
// table of families needs that model's record.
SavedRun open_saved_run(const std::string& folder, const CheckpointChoice& choice = {},
                        const CheckpointPeers& peers = {}, const ModelRecord* own = nullptr);

// Adds the weights that a checkpoint of a run with adapters leaves out, which are those it started from.
void add_starting_weights(TensorFiles& own, const Config& config, const Model& model,
                          const CheckpointPeers& peers = {});

// Puts the averages of weights (train.ema) that the optimizer's tensors hold in the place of the weights.
// Throws an Error when there are none.
void take_averages(LoadedCheckpoint& checkpoint);

}  // namespace trireme
