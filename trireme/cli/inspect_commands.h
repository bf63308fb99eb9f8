// The parts of `trireme inspect`, one file each.
#pragma once

#include <span>
#include <string>

namespace trireme::cli {

int inspect_graph(std::span<const std::string> arguments);
int inspect_plan(std::span<const std::string> arguments);
int inspect_program(std::span<const std::string> arguments);
int inspect_exchange(std::span<const std::string> arguments);
int inspect_combinations(std::span<const std::string> arguments);
int inspect_collectives(std::span<const std::string> arguments);
int inspect_schedule(std::span<const std::string> arguments);
int inspect_checkpoint(std::span<const std::string> arguments);
int inspect_run(std::span<const std::string> arguments);

}  // namespace trireme::cli
