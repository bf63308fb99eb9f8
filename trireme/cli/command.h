// The sub-commands of `trireme`: one file each, named like the command, listed in main.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "trireme/run/exit_code.h"

namespace trireme::cli {

struct Command {
  std::string_view name;
  std::string_view summary;  // one line, for `trireme help`
  // Arguments after the command's name. Throws Error for what main() should print.
  int (*run)(std::span<const std::string> arguments);
};

int train(std::span<const std::string> arguments);
int verify(std::span<const std::string> arguments);
int sample(std::span<const std::string> arguments);
int eval(std::span<const std::string> arguments);
int export_model(std::span<const std::string> arguments);
int inspect(std::span<const std::string> arguments);
int bench(std::span<const std::string> arguments);
int plan(std::span<const std::string> arguments);
int simulate(std::span<const std::string> arguments);
int profile(std::span<const std::string> arguments);
int doctor(std::span<const std::string> arguments);

}  // namespace trireme::cli
