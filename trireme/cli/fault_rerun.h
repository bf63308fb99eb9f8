// What the command does when a GPU has faulted.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace trireme::cli {

// The same command with train.device=cuda_debug in place of what it says of the device; empty for commands
// that train nothing, and where that is what was run.
std::vector<std::string> debug_arguments(std::span<const std::string> arguments);

// Runs it in place of this process, which has no more use of the GPU. Returns where it is not possible.
void run_again_in_debug_order(std::span<const std::string> arguments);

}  // namespace trireme::cli
