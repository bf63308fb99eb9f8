// For tests: a folder that vanishes with its scope, and the optional data folder beside the source tree.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tests/support/error_of.h"
#include "trireme/base/error.h"

namespace trireme {

class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "trireme_test_XXXXXX").string();
    TRIREME_CHECK(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  // Writes a file, making the folders above it.
  std::filesystem::path write(const std::filesystem::path& name, std::string_view bytes) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream out(file, std::ios::binary);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    out.close();
    TRIREME_CHECK(out.good());
    return file;
  }

 private:
  std::filesystem::path path_;
};

inline std::string_view as_text(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A path below $TRIREME_DATA, or below shared/data beside the source tree; nothing when it is absent.
inline std::optional<std::filesystem::path> test_data(const std::string& name) {
  const char* folder = std::getenv("TRIREME_DATA");
  const std::filesystem::path source = TRIREME_SOURCE_DIR;
  const std::filesystem::path path =
      (folder != nullptr ? std::filesystem::path(folder) : source.parent_path() / "shared/data") / name;
  if (std::filesystem::exists(path)) return path;
  return std::nullopt;
}

}  // namespace trireme

#define TRIREME_NEEDS_DATA(variable, name)                                                               \
  const auto variable##_found = ::trireme::test_data(name);                                              \
  if (!variable##_found) GTEST_SKIP() << "needs " << name << " below $TRIREME_DATA, which is not there"; \
  const std::filesystem::path variable = *variable##_found
