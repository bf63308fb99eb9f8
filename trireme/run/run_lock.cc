// flock on a file of its own. It stays while its folder does; a run that has locked one that was removed
// meanwhile takes the next one, so that no two processes lock two files of one name.
#include "trireme/run/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "trireme/base/error.h"
#include "trireme/base/machine.h"

namespace trireme {
namespace {

std::string path_of(const std::string& folder) {
  return folder + "/" + kLockFile;
}

int open_lock(const std::string& folder) {
  return ::open(path_of(folder).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
}

bool was_removed(int file) {
  struct stat status {};
  return ::fstat(file, &status) == 0 && status.st_nlink == 0;
}

std::string own_name() {
  const std::string host = host_name();
  return fmt::format("process {} on {}\n", ::getpid(), host.empty() ? "this host" : host);
}

std::string content_of(int file) {
  std::array<char, 512> text{};
  const ssize_t size = ::pread(file, text.data(), text.size() - 1, 0);
  const std::string_view found(text.data(), size > 0 ? static_cast<size_t>(size) : 0);
  return std::string(found.substr(0, found.find('\n')));
}

}  // namespace

RunLock::RunLock(const std::string& folder) {
  do {
    if (file_ >= 0) ::close(file_);
    file_ = open_lock(folder);
    if (file_ < 0)
      throw_error("cannot write to the run folder {}: {}; choose another with run.dir", folder,
                  std::strerror(errno));
    if (::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      const std::string owner = content_of(file_);
      ::close(file_);
      throw_error("the run folder {} is in use by {}; wait for it, stop it, or choose another run.dir",
                  folder, owner.empty() ? "another process" : owner);
    }
  } while (was_removed(file_));
  const std::string name = own_name();
  if (::ftruncate(file_, 0) == 0) (void)!::pwrite(file_, name.data(), name.size(), 0);
}

void remove_lock(const std::string& folder) {
  const int file = ::open(path_of(folder).c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return;
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) ::unlink(path_of(folder).c_str());
  ::close(file);
}

RunLock::~RunLock() {
  ::close(file_);
}

}  // namespace trireme
