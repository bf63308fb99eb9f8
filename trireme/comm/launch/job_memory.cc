// See job_memory.h. A killed process removes nothing, so a small child waits for its end: it reads from a
// pipe whose other end this process alone has.
#include "trireme/comm/launch/job_memory.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

#include "trireme/base/error.h"

namespace trireme::comm {
namespace {

namespace fs = std::filesystem;

void remove_folder(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

// In the child. A byte says that nothing is left to do.
[[noreturn]] void keep_watch(const std::string& folder, int alive) {
  setsid();  // a Ctrl-C at the terminal is not for this process
  prctl(PR_SET_NAME, "trireme-memory");
  // Whoever reads the launcher's output until its end must not wait for this process.
  const int nothing = open("/dev/null", O_RDWR);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(nothing, descriptor);
  close_range(STDERR_FILENO + 1, static_cast<unsigned>(alive) - 1, 0);
  close_range(static_cast<unsigned>(alive) + 1, ~0U, 0);
  char byte = 0;
  ssize_t size = 0;
  while ((size = read(alive, &byte, 1)) < 0 && errno == EINTR) {
  }
  if (size == 1) _exit(0);
  // The ranks are being killed at this moment, and one of them may still make a file.
  for (int i = 0; i < 20; ++i) {
    remove_folder(folder);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  _exit(0);
}

}  // namespace

JobMemory::JobMemory(const std::string& where) : path_(fmt::format("{}/trireme-{}-XXXXXX", where, getpid())) {
  if (!mkdtemp(path_.data()))
    throw_error(
        "cannot make a folder in {} for copies in memory: {}. They are what --elastic and "
        "run.memory_copy_every keep; without them use --restarts alone",
        where, std::strerror(errno));
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) == 0) {
    keeper_ = fork();
    if (keeper_ == 0) keep_watch(path_, ends[0]);  // never returns
    const int reason = errno;
    close(ends[0]);
    alive_ = ends[1];
    errno = reason;
  }
  if (keeper_ > 0) return;
  const std::string reason = std::strerror(errno);
  if (alive_ >= 0) close(alive_);
  remove_folder(path_);
  throw_error("cannot start the process that removes {} at the end: {}", path_, reason);
}

JobMemory::~JobMemory() {
  remove_folder(path_);
  // Where the folder could not be removed, the child tries.
  std::error_code ignored;
  if (!fs::exists(path_, ignored)) {
    [[maybe_unused]] const ssize_t told = write(alive_, "", 1);
  }
  close(alive_);
  waitpid(keeper_, nullptr, 0);
}

}  // namespace trireme::comm
