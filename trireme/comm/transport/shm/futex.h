// Sleeping on a word of memory that processes share, and waking who sleeps there.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace trireme::comm::shm {

// Sleeps while *word == value, at most so long. May return early.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t value, std::chrono::nanoseconds at_most);
void futex_wake(const std::atomic<uint32_t>& word);

// Makes every store that another rank made before now visible, so that wakers need no fence of their own:
// the price is paid by who goes to sleep. False where the kernel cannot; sleeps are then kept short.
bool register_global_barrier();
void global_barrier();

}  // namespace trireme::comm::shm
