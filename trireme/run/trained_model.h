// A trained model to be used: to generate text or to be evaluated. It is the checkpoint of a run, or a folder
// of Hugging Face.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/models/model.h"
#include "trireme/run/config.h"
#include "trireme/run/saved_run.h"

namespace trireme {

// kAverages: those of train.ema, in the place of the weights.
enum class UsedWeights { kTrained, kAverages };

struct WeightsChoice {
  CheckpointChoice checkpoint = {};
  UsedWeights used = UsedWeights::kTrained;
};

struct TrainedModel {
  // Of the run, or of what config.json says, with the settings given on top. Origins: "default" for what was
  // not given, so that a plan may still decide it.
  ResolvedConfig config;
  Model model;                                            // with the vocabulary or the classes of the weights
  std::string run;                                        // the run's folder; "" for a Hugging Face folder
  std::string weights;                                    // their folder: a checkpoint's, or Hugging Face's
  std::vector<std::string> messages;                      // for people: damaged checkpoints that were skipped
  std::shared_ptr<const TensorFiles> averages = nullptr;  // where they are used
};

// `path`: a run's folder or a Hugging Face folder, for which there is nothing to choose. `settings`
// as on a command line ("--train.batch=8"); a setting of the model that the weights contradict is an Error,
// here or when they are read. Throws Error.
TrainedModel open_trained_model(const std::string& path, const WeightsChoice& choice = {},
                                std::span<const std::string> settings = {});

// Fills `parts`, all weights and buffers of the model that this rank has, on all peers; `model` is
// trained.model, with what the data may have added. Throws as read_weights() does.
void read_trained_weights(const TrainedModel& trained, const Model& model, std::span<const PartView> parts,
                          const CheckpointPeers& peers = {});

// Throws Error if the folder of the model has no tokenizer that text can be given to it by.
void require_tokenizer(const TrainedModel& model);

}  // namespace trireme
