// See default_text.h.
#include "trireme/cli/default_text.h"

#include <filesystem>

namespace trireme::cli {

std::string default_text() {
  return std::filesystem::is_directory(TRIREME_SOURCE_DIR) ? TRIREME_SOURCE_DIR
                                                           : std::filesystem::current_path().string();
}

}  // namespace trireme::cli
