// Large batches at equal epochs: the same model trained with several batches, rules for the learning rate,
// warm-ups and optimizers, each run over the same number of samples. This says which runs there are, trains
// them, keeps what each has shown in its folder, and compares them; cli/bench_batches.cc prints it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/data/open_data.h"
#include "trireme/run/config.h"
#include "trireme/run/landscape.h"
#include "trireme/train/critical_batch.h"

namespace trireme::bench {

struct BatchGrid {
  struct Optimizer {
    std::string kind;
    double rate = 0;  // at the base batch
  };
  std::vector<int64_t> batches;                                 // ascending
  std::vector<std::string> rules = {"none", "linear", "sqrt"};  // of optim.batch_rule
  std::vector<double> warmups = {0, 0.1};                       // shares of a run's steps
  std::vector<Optimizer> optimizers;
  double epochs = 1;
  int64_t evaluations = 24;  // on held-out data, spread over a run
  // Samples that losses and curvatures are of. Validations during a run have as many, in whole batches.
  LandscapeOptions look;

  void validate() const;  // throws Error
};
// "sgd", or "sgd=0.1"; without a rate that of the settings. Throws Error.
BatchGrid::Optimizer parse_optimizer(const std::string& text, const OptimOptions& settings);

// One run. Where two would be the same run, there is one: all rules agree at the base batch, and there is no
// warm-up from a rate to itself.
struct GridCell {
  std::string optimizer;
  double rate = 0;  // at the base batch
  int64_t batch = 1;
  std::string rule;
  double warmup = 0;
  int64_t steps = 1, warmup_steps = 0;

  std::string name() const;  // of its folder: "sgd0.1-b256-linear-warm10"
};
// `samples`: in the training data. The base batch is optim.base_batch, or the smallest one.
std::vector<GridCell> grid_cells(const BatchGrid& grid, const Config& base, int64_t samples);
// The settings of its run. A batch that is even is computed in two microbatches, unless the settings say
// otherwise, because the noise scale is measured between them.
Config cell_config(const BatchGrid& grid, const Config& base, const GridCell& cell,
                   const std::string& folder);

struct CellResult {
  GridCell cell;
  std::string failure;      // why there is nothing else: the loss was not finite
  double highest_rate = 0;  // of a step
  Landscape::Losses training, held_out;
  double sharpness = 0, sharpness_residual = 0;  // the largest eigenvalue of the Hessian (train/curvature.h)
  std::optional<double> noise_scale;             // in samples: the median of the second half of the run
  struct HeldOut {
    double step = 0, seconds = 0, loss = 0;  // seconds: of the steps so far
  };
  std::vector<HeldOut> course;

  double gap() const { return held_out.loss - training.loss; }
  // When the held-out loss came down to the target, between two validations by a straight line.
  std::optional<double> steps_to(double target) const;
  // How far the held-out loss fell from the first validation to the last, by the seconds between them.
  double learned_per_second() const;
};

// Trains a cell in `folder`, or reads what it has shown if it is there. Throws Error, also where the folder
// has a cell of other settings.
enum class CellSource { kTrained, kRead };
std::pair<CellResult, CellSource> cell_result(const BatchGrid& grid, const ResolvedConfig& base,
                                              const GridCell& cell, const OpenedData& data,
                                              const std::string& folder);

// The lowest loss that every batch reached with some optimizer, rule and warm-up: the default target. Nothing
// where a batch has no run that ended.
std::optional<double> common_target(std::span<const CellResult> results);

// For each batch that reached the target the least steps of an optimizer, over rates, rules and warm-ups; and
// S = S_min (1 + B_c/B) fitted to them.
struct StepsByBatch {
  std::string optimizer;
  std::vector<BatchSteps> points;
  std::optional<CriticalBatchFit> fit;
  // The noise scales that these runs measured: least and most.
  std::optional<std::pair<double, double>> noise_scales;
};
std::vector<StepsByBatch> steps_by_batch(std::span<const CellResult> results, double target);

}  // namespace trireme::bench
