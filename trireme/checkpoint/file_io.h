// Files as checkpoints need them: written in one go with a running checksum and flushed to the disk before
// they count as written; read at offsets, without mapping, because a file that shrinks under a mapping
// kills the process where a short read is an Error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "trireme/base/hash.h"

namespace trireme {

// What identifies the contents of a file.
struct FileDigest {
  uint64_t bytes = 0;
  uint64_t xxh64 = 0;

  bool operator==(const FileDigest&) const = default;
};

// Creates the file, or empties it. All failures are Errors that name the path and the system's reason.
class FileWriter {
 public:
  explicit FileWriter(const std::string& path);
  ~FileWriter();  // closes; without finish() the file is not complete
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  void write(const void* data, size_t bytes);
  FileDigest finish();  // waits until the disk has it all

 private:
  std::string path_;
  int file_ = -1;
  uint64_t bytes_ = 0;
  RunningHash hash_;
};

class FileReader {
 public:
  explicit FileReader(const std::string& path);
  ~FileReader();
  FileReader(FileReader&& other) noexcept;
  FileReader& operator=(FileReader&&) = delete;

  const std::string& path() const { return path_; }
  uint64_t bytes() const { return bytes_; }  // when it was opened
  // Reads exactly so many bytes; the file being shorter is an Error.
  void read(uint64_t offset, void* to, size_t bytes) const;

 private:
  std::string path_;
  int file_ = -1;
  uint64_t bytes_ = 0;
};

FileDigest digest_of(const FileReader& file);
// Makes the names in a folder durable: files created, renamed or removed in it.
void sync_directory(const std::string& path);

}  // namespace trireme
