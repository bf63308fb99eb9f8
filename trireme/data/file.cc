// Files and gzip; see file.h. Sizes are taken from the file system and checked
// against the caller's limit before anything is allocated.
#include "trireme/data/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace fs = std::filesystem;
namespace {

template <typename Container>
Container read_into(const fs::path& path, size_t limit_bytes) {
  const DataFile file(path);
  if (file.size() > limit_bytes) {
    throw_error("{}: {} found, at most {} expected here; split the file or raise the limit", file.path(),
                format_bytes(file.size()), format_bytes(limit_bytes));
  }
  Container bytes(file.size(), {});
  file.read(0, {reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()});
  return bytes;
}

}  // namespace

DataFile::DataFile(const fs::path& path)
    : path_(path.string()),
      fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // or a pipe would be waited for
  if (fd_ < 0)
    throw_error("{}: cannot open: {}; check the path and its permissions", path_, std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(fd_, &status) == 0;
  if (!known || !S_ISREG(status.st_mode)) {
    ::close(fd_);
    throw_error("{}: not a regular file; a file was expected here", path_);
  }
  size_ = static_cast<size_t>(status.st_size);
}

DataFile::~DataFile() {
  ::close(fd_);
}

void DataFile::read(size_t offset, std::span<uint8_t> to) const {
  while (!to.empty()) {
    const ssize_t got = ::pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_error("{}: read failed at byte {}: {}", path_, offset, std::strerror(errno));
    if (got == 0) {
      struct stat status {};
      ::fstat(fd_, &status);
      throw_error(
          "{}: has {} bytes, but had {} when it was opened, and byte {} is needed; it was cut short or is "
          "still being written: put the whole file back and start again",
          path_, status.st_size, size_, offset);
    }
    offset += static_cast<size_t>(got);
    to = to.subspan(static_cast<size_t>(got));
  }
}

std::vector<uint8_t> read_file(const fs::path& path, size_t limit_bytes) {
  return read_into<std::vector<uint8_t>>(path, limit_bytes);
}

std::string read_text_file(const fs::path& path, size_t limit_bytes) {
  return read_into<std::string>(path, limit_bytes);
}

bool is_gzip(std::span<const uint8_t> bytes) {
  return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
}

std::vector<uint8_t> gunzip(std::span<const uint8_t> bytes, std::string_view name, size_t limit_bytes) {
  constexpr size_t kChunk = size_t{1} << 16;
  constexpr size_t kMaxInput = size_t{1} << 30;  // zlib counts in 32 bits
  if (bytes.size() > kMaxInput) {
    throw_error("{}: {} of gzip found, at most {} expected; unpack it with gunzip first", name,
                format_bytes(bytes.size()), format_bytes(kMaxInput));
  }
  struct Stream : z_stream {
    Stream() : z_stream{} {}
    ~Stream() { inflateEnd(this); }
  } stream;
  if (inflateInit2(&stream, 15 + 16) != Z_OK) throw_error("{}: zlib could not start", name);
  stream.next_in = const_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  std::vector<uint8_t> out;
  for (;;) {
    const size_t used = out.size();
    out.resize(used + kChunk);
    stream.next_out = out.data() + used;
    stream.avail_out = static_cast<uInt>(kChunk);
    const int code = inflate(&stream, Z_NO_FLUSH);
    out.resize(used + kChunk - stream.avail_out);
    if (out.size() > limit_bytes) {
      throw_error("{}: unpacks to more than {}; it is not the file that was expected", name,
                  format_bytes(limit_bytes));
    }
    if (code == Z_STREAM_END) {
      if (!is_gzip({stream.next_in, stream.avail_in})) return out;
      inflateReset(&stream);
    } else if (code != Z_OK || (stream.avail_in == 0 && stream.avail_out != 0)) {
      throw_error("{}: damaged or truncated gzip after {} bytes unpacked ({}); fetch the file again", name,
                  out.size(), stream.msg != nullptr ? stream.msg : "unexpected end");
    }
  }
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  fs::directory_iterator it(folder, error);
  if (error) throw_error("{}: cannot list the folder: {}", folder.string(), error.message());
  for (const fs::directory_entry& entry : it) {
    if (!entry.path().filename().string().starts_with('.')) entries.push_back(entry.path());
  }
  std::sort(entries.begin(), entries.end(),
            [](const fs::path& a, const fs::path& b) { return a.string() < b.string(); });
  return entries;
}

}  // namespace trireme
