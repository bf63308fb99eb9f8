// Reading whole files, with errors that name the file and say what to do. Every reader of a data
// format works on bytes in memory (a span), so that it can be tested and fuzzed without files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

inline constexpr size_t kNoLimit = SIZE_MAX;

// The bytes of a regular file. Throws Error when it is absent, unreadable or larger than `limit_bytes`.
std::vector<uint8_t> read_file(const std::filesystem::path& path, size_t limit_bytes = kNoLimit);
std::string read_text_file(const std::filesystem::path& path, size_t limit_bytes = kNoLimit);

// A file mapped read-only: ranks of one host that read the same file share its pages. The file must not
// be shortened while it is mapped (the system kills a reader of pages that are gone).
class MappedFile {
 public:
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const uint8_t> bytes() const { return {data_, size_}; }

 private:
  MappedFile() = default;
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

bool is_gzip(std::span<const uint8_t> bytes);

// Unpacks a gzip stream (several members are joined, as gunzip does). `name` is for error messages.
// Memory grows with what is really unpacked, never with what a header claims, and ends at `limit_bytes`.
std::vector<uint8_t> gunzip(std::span<const uint8_t> bytes, std::string_view name, size_t limit_bytes);

// Entries of a folder in byte order of their names, hidden ones (".git") left out.
std::vector<std::filesystem::path> sorted_entries(const std::filesystem::path& folder);

}  // namespace trireme
