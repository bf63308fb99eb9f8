// For tests: the optional data folder beside the source tree.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tests/support/error_of.h"
#include "tests/support/temp_folder.h"

namespace trireme {

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
