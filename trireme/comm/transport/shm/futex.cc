// The system calls behind futex.h.
#include "trireme/comm/transport/shm/futex.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace trireme::comm::shm {

void futex_wait(const std::atomic<uint32_t>& word, uint32_t value, std::chrono::nanoseconds at_most) {
  if (at_most.count() <= 0) return;
  const timespec time{.tv_sec = static_cast<time_t>(at_most.count() / 1'000'000'000),
                      .tv_nsec = static_cast<long>(at_most.count() % 1'000'000'000)};
  syscall(SYS_futex, &word, FUTEX_WAIT, value, &time, nullptr, 0);
}

void futex_wake(const std::atomic<uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

bool register_global_barrier() {
  return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
}

void global_barrier() {
  syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0);
}

}  // namespace trireme::comm::shm
