// What is settled before a run's first step: its data, its model's settings, and what of both a rank has.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "trireme/data/loader.h"
#include "trireme/data/open_data.h"
#include "trireme/program/program.h"
#include "trireme/run/config.h"
#include "trireme/train/trainer.h"

namespace trireme {

// What the settings say of the data, for open_data(). `default_path` is read when data.path is empty; "":
// there is none, and then that is an Error.
DataOptions data_options(const Config& config, const std::string& default_path);
// Opens the data that the settings name.
OpenedData open_run_data(const Config& config, const std::string& default_path);

// The settings with everything automatic filled in from the data, which must be what the model learns from.
ModelOptions complete_model(const ModelRecord& record, const Config& config, const OpenedData& data);

// The settings with a usual vocabulary or number of classes where only the data would say it: for looking at
// a step without data.
ModelOptions assumed_model(const ModelRecord& record, ModelOptions model);

// Of one of so many ranks on a host: train.threads, or its share of the cores.
int thread_count(const TrainOptions& train, int ranks_here);

// Says which samples a rank has for itself, or those of its clients in turn; nothing where all draw from all.
// Throws Error where data.partition is not for this plan.
void add_own_samples(const Config& config, const OpenedData& data, const RankOptions& ranks,
                     LoaderOptions& options);

// As a rank sees itself in all that is not a step. Servers evaluate and save as if they were alone: each has
// some of the states, as stages of a pipeline do. Workers do nothing of the kind.
RankOptions between_steps(const RankOptions& ranks);

// What is proved of a run's Programs before its first step (program/verify.h), in milliseconds: every rank
// verifies its own, and rank 0 those of all ranks together, where they are few enough to be built there.
inline constexpr int kVerifiedTogether = 64;  // ranks
// `others` builds the program of another rank; it is asked on rank 0 alone. Throws Error, with what is wrong.
void verify_before_steps(const Program& own, const std::function<Program(int rank)>& others);

}  // namespace trireme
