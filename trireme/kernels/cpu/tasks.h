// A loop over tasks that need temporary memory: like ThreadPool::parallel_for, but each task gets a slot, and
// no two tasks are in one slot at a time. Which slot a task gets depends on timing, so what lies in a slot
// must not outlive the task.
#pragma once

#include <atomic>
#include <cstdint>

#include "trireme/base/thread_pool.h"

namespace trireme::cpu {

// task(index, slot) for each index in [0, tasks), slots in [0, pool->threads()). Without a pool all run here.
template <typename Task>
void for_each_task(ThreadPool* pool, int64_t tasks, const Task& task) {
  if (!pool || pool->threads() == 1 || tasks <= 1) {
    for (int64_t i = 0; i < tasks; ++i) task(i, 0);
    return;
  }
  std::atomic<int64_t> next{0};
  pool->on_each([&](int slot) {
    for (int64_t i = next.fetch_add(1, std::memory_order_relaxed); i < tasks;
         i = next.fetch_add(1, std::memory_order_relaxed)) {
      task(i, slot);
    }
  });
}

}  // namespace trireme::cpu
