// The library's state behind our interface; see hash.h.
#include "trireme/base/hash.h"

#include <xxhash.h>

namespace trireme {

struct RunningHash::State {
  XXH64_state_t* hash = XXH64_createState();
  ~State() { XXH64_freeState(hash); }
};

RunningHash::RunningHash() : state_(std::make_unique<State>()) {
  XXH64_reset(state_->hash, 0);
}

RunningHash::~RunningHash() = default;

void RunningHash::add(const void* data, size_t bytes) {
  XXH64_update(state_->hash, data, bytes);
}

uint64_t RunningHash::value() const {
  return XXH64_digest(state_->hash);
}

uint64_t hash_of(const void* data, size_t bytes, uint64_t seed) {
  return XXH64(data, bytes, seed);
}

}  // namespace trireme
