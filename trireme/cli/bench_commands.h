// The parts of `trireme bench`, one file each.
#pragma once

#include <span>
#include <string>

namespace trireme::cli {

int bench_collectives(std::span<const std::string> arguments);
int bench_kernels(std::span<const std::string> arguments);
int bench_train(std::span<const std::string> arguments);
int bench_scaling(std::span<const std::string> arguments);

}  // namespace trireme::cli
