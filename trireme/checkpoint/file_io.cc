// Thin wrappers of POSIX calls; see file_io.h. Short writes and interruptions are continued, since a signal
// must not turn into a damaged checkpoint.
#include "trireme/checkpoint/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "trireme/base/error.h"

namespace trireme {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw_error("{}: cannot {}: {}", path, what, std::strerror(errno));
}

}  // namespace

FileWriter::FileWriter(const std::string& path) : path_(path) {
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file_ < 0) fail(path_, "create the file");
}

FileWriter::~FileWriter() {
  if (file_ >= 0) ::close(file_);
}

void FileWriter::write(const void* data, size_t bytes) {
  const auto* next = static_cast<const std::byte*>(data);
  for (size_t left = bytes; left > 0;) {
    // In pieces, so that the checksum reads what is still in the cache.
    const ssize_t written = ::write(file_, next, std::min<size_t>(left, 1 << 20));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "write");
    hash_.add(next, static_cast<size_t>(written));
    next += written;
    left -= static_cast<size_t>(written);
  }
  bytes_ += bytes;
}

FileDigest FileWriter::finish() {
  // Some file systems report a full disk only here.
  if (::fsync(file_) != 0) fail(path_, "flush to the disk");
  if (::close(std::exchange(file_, -1)) != 0) fail(path_, "close");
  return {bytes_, hash_.value()};
}

FileReader::FileReader(const std::string& path) : path_(path) {
  file_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // or a pipe would be waited for
  if (file_ < 0) fail(path_, "open");
  struct stat status {};
  const bool known = ::fstat(file_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    const int reason = errno;
    ::close(file_);
    if (known) throw_error("{}: not a regular file", path_);
    throw_error("{}: cannot examine: {}", path_, std::strerror(reason));
  }
  bytes_ = static_cast<uint64_t>(status.st_size);
}

FileReader::FileReader(FileReader&& other) noexcept
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)), bytes_(other.bytes_) {}

FileReader::~FileReader() {
  if (file_ >= 0) ::close(file_);
}

void FileReader::read(uint64_t offset, void* to, size_t bytes) const {
  auto* next = static_cast<std::byte*>(to);
  for (size_t left = bytes; left > 0;) {
    const ssize_t got = ::pread(file_, next, left, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path_, "read");
    if (got == 0) throw_error("{}: ends at byte {}, {} more expected", path_, offset, left);
    next += got;
    offset += static_cast<uint64_t>(got);
    left -= static_cast<size_t>(got);
  }
}

FileDigest digest_of(const FileReader& file) {
  RunningHash hash;
  std::vector<std::byte> piece(1 << 20);
  for (uint64_t offset = 0; offset < file.bytes(); offset += piece.size()) {
    const size_t bytes = static_cast<size_t>(std::min<uint64_t>(piece.size(), file.bytes() - offset));
    file.read(offset, piece.data(), bytes);
    hash.add(piece.data(), bytes);
  }
  return {file.bytes(), hash.value()};
}

void sync_directory(const std::string& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) fail(path, "open the folder");
  // Network file systems may refuse to sync a folder; they keep names in order themselves.
  const bool failed = ::fsync(folder) != 0 && errno != EINVAL && errno != ENOTSUP;
  const int reason = errno;
  ::close(folder);
  errno = reason;
  if (failed) fail(path, "flush the folder to the disk");
}

}  // namespace trireme
