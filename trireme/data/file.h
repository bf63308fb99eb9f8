// Reading files, with errors that name the file and say what to do. Every reader of a data format works on
// bytes in memory (a span), so that it can be tested and fuzzed without files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

inline constexpr size_t kNoLimit = SIZE_MAX;

// The bytes of a regular file. Throws Error when it is absent, unreadable or larger than `limit_bytes`.
std::vector<uint8_t> read_file(const std::filesystem::path& path, size_t limit_bytes = kNoLimit);
std::string read_text_file(const std::filesystem::path& path, size_t limit_bytes = kNoLimit);

// A regular file that is read piece by piece where it is needed, and never mapped: a file that is shortened
// while it is in use is an Error of the read that meets its end, where a mapping would kill the process.
// Thread-safe. Ranks of one host share the system's cache of it.
class DataFile {
 public:
  explicit DataFile(const std::filesystem::path& path);  // throws Error
  ~DataFile();
  DataFile(const DataFile&) = delete;
  DataFile& operator=(const DataFile&) = delete;

  const std::string& path() const { return path_; }
  size_t size() const { return size_; }  // when it was opened
  // Fills `to` with the bytes from `offset` on. Throws an Error with file and byte where there are fewer.
  void read(size_t offset, std::span<uint8_t> to) const;

 private:
  std::string path_;
  int fd_;
  size_t size_ = 0;
};

bool is_gzip(std::span<const uint8_t> bytes);

// Unpacks a gzip stream (several members are joined, as gunzip does). `name` is for error messages.
// Memory grows with what is really unpacked, never with what a header claims, and ends at `limit_bytes`.
std::vector<uint8_t> gunzip(std::span<const uint8_t> bytes, std::string_view name, size_t limit_bytes);

// Entries of a folder in byte order of their names, hidden ones (".git") left out.
std::vector<std::filesystem::path> sorted_entries(const std::filesystem::path& folder);

}  // namespace trireme
