// See default_text.h.
#include "trireme/cli/default_text.h"

#include <filesystem>

namespace trireme::cli {

std::string default_text() {
  return default_text(TRIREME_SOURCE_DIR);
}

std::string default_text(const std::string& source) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(std::filesystem::path(source) / "trireme/trireme.h", ignored)
             ? source
             : "";
}

}  // namespace trireme::cli
