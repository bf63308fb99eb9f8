// Trireme as a library: what programs of one's own are written with. Whatever this header reaches is
// installed, and nothing else. docs/library.md walks through it; examples/cpp/ are programs to start from.
#pragma once

// Errors that the library throws, and random numbers that are a function of (seed, stream, index).
#include "trireme/base/error.h"
#include "trireme/base/rng.h"

// A model: layers on a graph, and the record that the trainer is handed.
#include "trireme/train/models/model.h"
#include "trireme/train/models/network.h"

// Data: samples by number, and batches of them in an order that follows from (seed, epoch).
#include "trireme/train/data/data_set.h"
#include "trireme/train/data/loader.h"
#include "trireme/train/data/open_data.h"
#include "trireme/train/data/random_batch.h"

// Training: one step at a time, or a whole run with checkpoints and metrics.
#include "trireme/train/loop.h"
#include "trireme/train/optim/lr_schedule.h"
#include "trireme/train/rank_states.h"
#include "trireme/train/tensor_access.h"
#include "trireme/train/trainer.h"

// Several ranks: who started this process as which of them, how they talk, and how a step is spread.
#include "trireme/comm/context.h"
#include "trireme/plan/plan.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/plan_settings.h"

// A trained model: text from it; and whether a plan computes what one rank computes.
#include "trireme/train/parity/verify.h"
#include "trireme/train/sampler.h"
#include "trireme/train/saved_run.h"
