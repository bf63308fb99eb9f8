// See plain_file.h.
#include "trireme/dashboard/plain_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace trireme::dashboard {

PlainFile::PlainFile(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return;
  struct stat status {};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(file);
    return;
  }
  file_ = file;
  size_ = status.st_size;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  modified_ = static_cast<double>(status.st_mtim.tv_sec) + 1e-9 * static_cast<double>(status.st_mtim.tv_nsec);
}

PlainFile::~PlainFile() {
  if (file_ >= 0) ::close(file_);
}

std::string PlainFile::read(int64_t offset, size_t bytes) const {
  std::string text(static_cast<size_t>(std::clamp<int64_t>(size_ - offset, 0, static_cast<int64_t>(bytes))),
                   '\0');
  size_t done = 0;
  while (file_ >= 0 && done < text.size()) {
    const ssize_t got =
        ::pread(file_, text.data() + done, text.size() - done, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  text.resize(done);
  return text;
}

std::string PlainFile::tail(size_t bytes) const {
  return read(std::max<int64_t>(0, size_ - static_cast<int64_t>(bytes)), bytes);
}

}  // namespace trireme::dashboard
