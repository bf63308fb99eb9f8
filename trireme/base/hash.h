// XXH64, of bytes that come one after another and of bytes at hand. It tells other contents from the same; it
// is no defence against somebody who wants two contents to look the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace trireme {

class RunningHash {
 public:
  RunningHash();
  ~RunningHash();
  void add(const void* data, size_t bytes);
  uint64_t value() const;  // of all so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The same of one run of bytes. `seed`: of those before, where hashes are chained.
uint64_t hash_of(const void* data, size_t bytes, uint64_t seed = 0);

}  // namespace trireme
