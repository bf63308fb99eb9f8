// Trireme as a library: what your programs include. Whatever this header reaches is
// installed, and nothing else. docs/library.md walks through it; examples/cpp/ are programs to start from.
#pragma once

// Errors that the library throws, and random numbers that are a function of (seed, stream, index).
#include "trireme/base/error.h"
#include "trireme/base/rng.h"

// A model: layers on a graph, and the record that the trainer is handed.
#include "trireme/models/model.h"
#include "trireme/models/network.h"

// Data: samples by number, and batches of them in an order that follows from (seed, epoch).
#include "trireme/data/data_set.h"
#include "trireme/data/loader.h"
#include "trireme/data/open_data.h"
#include "trireme/models/random_batch.h"

// Training: one step at a time, a whole run with checkpoints and metrics, or a job that starts its ranks as well.
#include "trireme/optim/lr_schedule.h"
#include "trireme/run/job.h"
#include "trireme/run/loop.h"
#include "trireme/train/rank_states.h"
#include "trireme/train/tensor_access.h"
#include "trireme/train/trainer.h"

// Several ranks: who started this process as which of them, how they talk, and how a step is spread.
#include "trireme/comm/context.h"
#include "trireme/plan/plan.h"
#include "trireme/run/plan_settings.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/axis_algorithms.h"

// What a plan would do, before it runs: the Programs of its ranks, their time on a cluster, and the plan that a
// search finds fastest.
#include "trireme/mesh/cluster_file.h"
#include "trireme/planner/search.h"
#include "trireme/program/text.h"
#include "trireme/run/plan_subject.h"
#include "trireme/sim/simulate.h"
#include "trireme/train/step_programs.h"

// A trained model: text from it; and whether a plan computes what one rank computes.
#include "trireme/run/sampler.h"
#include "trireme/run/saved_run.h"
#include "trireme/train/parity/verify.h"
