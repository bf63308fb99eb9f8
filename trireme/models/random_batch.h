// Batches of random numbers, for steps that are looked at, timed or compared without data.
#pragma once

#include "trireme/data/batch.h"
#include "trireme/models/options.h"

namespace trireme {

// One batch of random tokens (a sample of one dim), pairs of sources and targets (of two) or images (of
// three) with random targets; a function of the seed. vocab or classes in `model` must be set.
Batch random_batch(const ModelOptions& model, const Shape& sample, int64_t rows, uint64_t seed);

// Every fifth target no longer counts, so that ranks have different numbers of them.
void ignore_some_targets(Batch& batch);

}  // namespace trireme
