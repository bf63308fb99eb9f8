// The loss around trained models: how sharp the minimum is that each has found (train/curvature.h), and the
// loss along the straight line between two of them (train/loss_surface.h).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trireme/data/open_data.h"
#include "trireme/run/trained_model.h"
#include "trireme/runtime/device.h"
#include "trireme/train/curvature.h"

namespace trireme {

struct LandscapeOptions {
  enum class Samples { kTraining, kHeldOut };
  Samples of = Samples::kTraining;  // what the Hessian's loss is of
  // Samples of each kind, in whole batches: drawn once, from `seed`. Fewer where the data has fewer.
  int64_t samples = 512;
  // Of a batch. Whatever batch a run was trained with, all are looked at with this one: batch norms make
  // another loss of another batch.
  int64_t rows = 64;
  uint64_t seed = 1;
  CurvatureOptions curvature;
  double from = -0.5, to = 1.5;  // of the line; 0 is the first model, 1 the second
  int points = 21;
  std::function<void(size_t model, int iteration, double eigenvalue)> on_iteration = nullptr;
  std::function<void(int point)> on_point = nullptr;  // done, counted from 1

  void validate() const;  // throws Error
};

struct Landscape {
  int64_t parameters = 0;         // trained ones
  int64_t samples = 0, rows = 0;  // of each kind; of a batch
  struct Losses {
    double loss = 0;
    std::optional<double> accuracy;  // of models that have logits
  };
  struct Solution {
    std::string weights;
    // As evaluation has them, with the running statistics of the run.
    Losses training;
    std::optional<Losses> held_out;  // where the data has some
    double loss = 0;                 // as training has it, on the samples that the curvature is of
    double gradient_norm = 0;        // the same
    double distance = 0;             // of the weights from those of the first model
    Curvature curvature;
  };
  std::vector<Solution> solutions;
  struct Point {
    double a = 0;
    Losses training;
    std::optional<Losses> held_out;
  };
  std::vector<Point> line;  // with two models
};

// The data of a model for landscape_of(): that of its run, without augmentation. Throws Error where the model
// has no data.
OpenedData open_landscape_data(const TrainedModel& model, const std::string& default_path);

// Of one model or two, which have the same tensors; everything is computed in f32 on this rank alone, without
// dropout, with the settings of the first. Throws Error.
Landscape landscape_of(std::span<const TrainedModel> models, const OpenedData& data, Device& device,
                       const LandscapeOptions& options = {});

}  // namespace trireme
