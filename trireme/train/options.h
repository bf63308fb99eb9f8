// Settings of training (train.*). 0 or "" means automatic; the comment says from where.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/optim/update.h"

namespace trireme {

struct TrainOptions {
  int64_t batch = 16;          // samples in one step of the optimizer, over all microbatches and ranks
  int64_t batch_per_rank = 0;  // above 0: batch is this times the ranks that share it (use_batch_per_rank)
  int64_t accumulate = 1;      // microbatches that one step is split into; the result is the same
  int64_t shards = 0;          // virtual shards of a batch (schedule/shards.cc); a power of two; 0: none
  int64_t steps = 500;
  int64_t seed = 1;
  int64_t threads = 0;                  // automatic: one per core
  std::string init_from;                // weights to start from (weights.h); automatic: random ones
  std::vector<std::string> init_fresh;  // patterns of parameters that are not taken from init_from
  std::vector<std::string> freeze;      // patterns of parameters that are not trained (parameter_patterns.h)
  std::string precision = "f32";
  std::string weight_precision = "f32";    // of weights between steps: f32, or `precision` beside f32 masters
  std::string gradient_precision = "f32";  // of gradients between microbatches: f32, or `weight_precision`
  std::string device = "cpu";
  bool tf32 = false;         // a GPU may round the factors of f32 products to TF32
  double clip_norm = 1.0;    // 0: off
  bool noise_scale = false;  // measure the critical batch (critical_batch.h)
  double ema = 0.0;          // decay of averages of the weights; 0: none are kept
  double label_smoothing = 0.0;
  int64_t max_skipped = 10;  // steps in a row; f16 goes on for as long as its loss scale can be lowered
  // What becomes of a step with bad numbers (run/bad_steps.h): stop, skip or rewind; of a spike also none.
  std::string on_nan = "stop";
  std::string on_spike = "none";
  double spike_deviations = 6;  // of the losses of the window, above their mean
  int64_t spike_window = 50;    // good steps
  int64_t max_rewinds = 3;      // to the same checkpoint
  int64_t numbers_every = 0;  // steps between counts of what number formats lose (numeric_health.h); 0: never
  int64_t log_every = 1;      // steps
  int64_t eval_every = 250;   // steps; 0: only at the end
  int64_t eval_batches = 10;  // of `batch` held-out samples, at each validation
  int64_t compare_every = 100;  // steps between comparisons of replicas (replica_check.h)
  int64_t recheck_every = 0;    // steps between gradients that are made twice (gradient_check.h); 0: none are
  int64_t patience = 0;         // evaluations without a lower held-out loss, then the run ends; 0: never
  double max_minutes = 0;       // then the run saves and ends; 0: no limit
};

// Whether an update asks for the loss of its step before it changes anything.
inline bool watches_losses(const TrainOptions& train) {
  return train.on_nan != "stop" || train.on_spike != "none";
}

// What the update reads of them.
inline UpdateOptions update_options(const TrainOptions& train) {
  return {.batch = train.batch,
          .clip_norm = train.clip_norm,
          .ema = train.ema,
          .noise_scale = train.noise_scale,
          .gradient_precision = train.gradient_precision,
          .watches_losses = watches_losses(train)};
}

}  // namespace trireme
