// Whole files, mapped files and gzip; see file.h. Sizes are taken from the file system and checked
// against the caller's limit before anything is allocated.
#include "trireme/train/data/file.h"

#include <fcntl.h>
#include <sys/mman.h>
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

// An open file descriptor of a regular file, closed at the end of its scope.
class OpenFile {
 public:
  explicit OpenFile(const fs::path& path)
      : path_(path.string()), fd_(::open(path_.c_str(), O_RDONLY | O_CLOEXEC)) {
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
  ~OpenFile() { ::close(fd_); }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  const std::string& path() const { return path_; }
  int fd() const { return fd_; }
  size_t size() const { return size_; }

  void read_all(char* target) const {
    size_t done = 0;
    while (done < size_) {
      const ssize_t got = ::read(fd_, target + done, size_ - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw_error("{}: read failed at byte {}: {}", path_, done, std::strerror(errno));
      if (got == 0)
        throw_error("{}: shrank while it was read: {} of {} bytes; is it still being written?", path_, done,
                    size_);
      done += static_cast<size_t>(got);
    }
  }

 private:
  std::string path_;
  int fd_;
  size_t size_ = 0;
};

template <typename Container>
Container read_into(const fs::path& path, size_t limit_bytes) {
  const OpenFile file(path);
  if (file.size() > limit_bytes) {
    throw_error("{}: {} found, at most {} expected here; split the file or raise the limit", file.path(),
                format_bytes(file.size()), format_bytes(limit_bytes));
  }
  Container bytes(file.size(), {});
  file.read_all(reinterpret_cast<char*>(bytes.data()));
  return bytes;
}

}  // namespace

std::vector<uint8_t> read_file(const fs::path& path, size_t limit_bytes) {
  return read_into<std::vector<uint8_t>>(path, limit_bytes);
}

std::string read_text_file(const fs::path& path, size_t limit_bytes) {
  return read_into<std::string>(path, limit_bytes);
}

std::shared_ptr<const MappedFile> MappedFile::open(const fs::path& path) {
  const OpenFile file(path);
  std::shared_ptr<MappedFile> mapped(new MappedFile);
  if (file.size() == 0) return mapped;  // mmap refuses empty files
  void* data = ::mmap(nullptr, file.size(), PROT_READ, MAP_SHARED, file.fd(), 0);
  if (data == MAP_FAILED) {
    throw_error("{}: cannot map {}: {}", file.path(), format_bytes(file.size()), std::strerror(errno));
  }
  mapped->data_ = static_cast<const uint8_t*>(data);
  mapped->size_ = file.size();
  return mapped;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<uint8_t*>(data_), size_);
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
