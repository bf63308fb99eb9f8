// See run_folders.h.
#include "trireme/cli/run_folders.h"

#include <filesystem>

#include "trireme/base/error.h"

namespace trireme::cli {

std::vector<std::string> folders_or_runs(std::vector<std::string> folders) {
  if (!folders.empty()) return folders;
  if (!std::filesystem::is_directory("runs"))
    throw_error("there is no folder 'runs' here; name a run's folder, or one that holds the folders of runs");
  return {"runs"};
}

}  // namespace trireme::cli
