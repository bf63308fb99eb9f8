// `trireme inspect combinations`: the table of what does not go together, as docs/combinations.md has it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/plan/combinations.h"

namespace trireme::cli {

int inspect_combinations(std::span<const std::string> arguments) {
  CLI::App app("Prints what does not go together, and why, as docs/combinations.md has it.",
               "trireme inspect combinations");
  if (const auto code = parse_arguments(app, {arguments.begin(), arguments.end()})) return *code;
  fmt::print("{}", combinations_document());
  return kOk;
}

}  // namespace trireme::cli
