// A run that was saved, opened again by those who want its model: to generate, to export, to start from.
#pragma once

#include <optional>
#include <string>

#include "trireme/train/checkpoint/checkpoint.h"
#include "trireme/train/models/model.h"

namespace trireme {

struct SavedRun {
  Config config;                // of the run's folder
  Model model;                  // its model, with the vocabulary that the weights have
  LoadedCheckpoint checkpoint;  // with the weights that it leaves out, where it has adapters
};

// Throws Error when `folder` is no run's folder, or has no checkpoint (of that step). A run of a model
// outside the table of families needs that model's record.
SavedRun open_saved_run(const std::string& folder, std::optional<int64_t> step = std::nullopt,
                        const CheckpointPeers& peers = {}, const ModelRecord* own = nullptr);

// Adds the weights that a checkpoint of a run with adapters leaves out, which are those it started from.
void add_starting_weights(TensorFiles& own, const Config& config, const Model& model,
                          const CheckpointPeers& peers = {});

// Puts the averages of weights (train.ema) that the optimizer's tensors hold in the place of the weights.
// Throws an Error when there are none.
void take_averages(LoadedCheckpoint& checkpoint);

}  // namespace trireme
