// A trained model on held-out data: its loss and, where they have a meaning, perplexity and accuracy; and
// what a classifier says of each sample.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "trireme/data/open_data.h"
#include "trireme/run/trained_model.h"
#include "trireme/run/translate.h"
#include "trireme/runtime/device.h"
#include "trireme/train/trainer.h"

namespace trireme {

// The data that a model is evaluated on: if data.path was given, that data (the held-out part that it brings
// or, without data.validation_fraction, all of it; normalised and labelled as the training images were); else
// what the run held out. `default_path` is read where the run was made without data.path. Throws Error.
OpenedData open_evaluation_data(const TrainedModel& model, const std::string& default_path);

struct Prediction {
  DataSet::Origin sample;
  int64_t label = 0, predicted = 0;  // numbers of classes
  double probability = 0;            // that the model gives to `predicted`
};

struct EvaluateOptions {
  int64_t batches = 0;  // of train.batch samples each; 0: all of the data
  // Called with each sample in the order of the data. For image classifiers on one rank.
  std::function<void(const Prediction&)> on_prediction = nullptr;
  // Called with each pair in the order of the data. For models of pairs on one rank.
  std::function<void(const Translation&)> on_translation = nullptr;
};

struct EvaluationReport {
  double loss = 0;                   // mean over targets
  std::optional<double> perplexity;  // of models that predict the next token
  std::optional<double> accuracy;    // share of targets with the largest logit, of models that have logits
  std::optional<double> exact;       // with on_translation: share of pairs whose whole target was written
  int64_t targets = 0, samples = 0;  // that were counted
};

// On this rank of a plan, whose `exchange` is ignored: there are no gradients. All ranks call it with the
// same model and data, and get the same report. The plan was applied to the settings (plan_settings.h).
// Throws Error.
EvaluationReport evaluate_model(const TrainedModel& model, const OpenedData& data, Device& device,
                                RankOptions ranks = {}, const EvaluateOptions& options = {});

}  // namespace trireme
