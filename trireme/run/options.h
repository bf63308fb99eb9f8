// The settings of a run: those of its parts, each beside its owner, and its own (run.*). Names, documentation
// and limits of each field stand in config_fields.cc; rules between fields in config_validate.cc.
//
// Where a value is usually known from elsewhere, 0 or "" means automatic, and the comment says from
// where. Choices are strings because the part that owns them (a model, an optimizer) looks itself up by
// that name; config_fields.cc lists the ones that exist, so a misspelling never gets that far.
//
// The defaults are the run of `trireme train` without a config: a small byte-level GPT on the text of
// this repository.
#pragma once

#include <cstdint>
#include <string>

#include "trireme/data/options.h"
#include "trireme/models/options.h"
#include "trireme/optim/options.h"
#include "trireme/train/options.h"

namespace trireme {

struct RunOptions {
  std::string dir;  // automatic: a new folder in runs/, named by date and time
  static constexpr int64_t kAutomaticInterval = -1;
  int64_t checkpoint_every = 250;      // steps; 0: only at the end; kAutomaticInterval: checkpoint_interval.h
  double hours_between_failures = 24;  // of the whole job, for the automatic interval
  bool save_in_background = true;
  int64_t memory_copy_every =
      0;                   // steps; automatic: none, or with --elastic what costs 5 % (memory_copies.h)
  int64_t keep = 2;        // checkpoints
  bool keep_best = false;  // also that with the lowest held-out loss (held_out_record.h)
  std::string resume = "auto";
  bool tensorboard = false;
  int64_t sample_tokens = 300;  // generated at the end; language models only; 0: none
  int64_t sample_every = 0;     // steps; likewise from the newest checkpoint; 0: only at the end
  int64_t timeline_step = 10;   // of each start, which is recorded in timeline/; 0: none (step_timeline.h)
};

struct Config {
  ModelOptions model;
  DataSettings data;
  TrainOptions train;
  OptimOptions optim;
  LrScheduleOptions lr_schedule;
  RunOptions run;
};

}  // namespace trireme
