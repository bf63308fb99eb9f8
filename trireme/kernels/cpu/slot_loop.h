// A parallel loop whose body needs scratch memory: each call gets a slot number that no other call holds
// at the same time, to index buffers in the workspace. Which slot a task gets depends on timing, so a
// slot's contents must not outlive the task.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "trireme/base/thread_pool.h"

namespace trireme::cpu {

inline int64_t slot_count(int threads, int64_t tasks) {
  return std::max<int64_t>(1, std::min<int64_t>(threads, tasks));
}

// Calls body(slot, task) for every task in [0, tasks), with slot < slot_count(pool.threads(), tasks).
template <typename Body>
void for_each_task(ThreadPool& pool, int64_t tasks, const Body& body) {
  std::atomic<int64_t> next{0};
  pool.parallel_for(slot_count(pool.threads(), tasks), 1, [&](int64_t slot, int64_t) {
    for (;;) {
      const int64_t task = next.fetch_add(1, std::memory_order_relaxed);
      if (task >= tasks) return;
      body(slot, task);
    }
  });
}

}  // namespace trireme::cpu
