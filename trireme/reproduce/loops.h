// What decks say of training loops: computed by the trainer on a small model, and by the loader.
#pragma once

#include <cstdint>

namespace trireme::reproduce {

// The norm of a gradient that was added up over so many microbatches, over that of the same rows as one
// batch.
double accumulated_over_whole(int64_t microbatches);

// Batches until every one of the samples was in one.
double batches_of_epoch(int64_t samples, int64_t batch);

}  // namespace trireme::reproduce
