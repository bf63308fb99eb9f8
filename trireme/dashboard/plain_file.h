// Reading files of folders that anybody may have written into: no link is followed, no pipe is waited for.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::dashboard {

class PlainFile {
 public:
  explicit PlainFile(const std::string& path);
  ~PlainFile();
  PlainFile(const PlainFile&) = delete;
  PlainFile& operator=(const PlainFile&) = delete;

  explicit operator bool() const { return file_ >= 0; }  // a regular file, and readable
  int64_t size() const { return size_; }
  uint64_t device() const { return device_; }
  uint64_t inode() const { return inode_; }
  double modified() const { return modified_; }  // seconds since 1970

  // Fewer bytes where the file ends.
  std::string read(int64_t offset, size_t bytes) const;
  std::string head(size_t bytes) const { return read(0, bytes); }
  std::string tail(size_t bytes) const;

 private:
  int file_ = -1;
  int64_t size_ = 0;
  uint64_t device_ = 0, inode_ = 0;
  double modified_ = 0;
};

}  // namespace trireme::dashboard
