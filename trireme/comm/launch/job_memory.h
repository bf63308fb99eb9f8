// A folder in the memory of this host (tmpfs) that belongs to a job: what its ranks write there outlives
// them, and is gone when the launcher is. Ranks that are started again find in it what those before them had.
#pragma once

#include <sys/types.h>

#include <string>

namespace trireme::comm {

class JobMemory {
 public:
  // Makes a new folder that only this user can read, trireme-PID-…, with the number of this process. For a process
  // with one thread. Throws Error.
  explicit JobMemory(const std::string& where = "/dev/shm");
  // Removes the folder. Where this process is killed instead, a process that it started for this does.
  ~JobMemory();
  JobMemory(const JobMemory&) = delete;
  JobMemory& operator=(const JobMemory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
  pid_t keeper_ = -1;
  int alive_ = -1;  // the end of a pipe, which closes when this process ends
};

}  // namespace trireme::comm
