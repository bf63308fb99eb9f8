// Keeps a run's folder for one process: two that write checkpoints and metrics into it would mix them.
#pragma once

#include <string>

namespace trireme {

inline constexpr const char* kLockFile = ".lock";  // in the run's folder

class RunLock {
 public:
  // Throws an Error that names the process that has it. Goes with the process, however that ends. Where the
  // file system has no locks, nothing is kept.
  explicit RunLock(const std::string& folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int file_ = -1;
};

// Removes the lock's file, unless a process has it.
void remove_lock(const std::string& folder);

}  // namespace trireme
