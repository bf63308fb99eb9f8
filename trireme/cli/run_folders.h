// Which folders of runs a command looks at.
#pragma once

#include <string>
#include <vector>

namespace trireme::cli {

// Those that were named, or runs/. Throws Error where none was and that is not there.
std::vector<std::string> folders_or_runs(std::vector<std::string> folders);

}  // namespace trireme::cli
