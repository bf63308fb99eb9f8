// What the sub-commands share in reading their command lines: settings ("--train.batch=32") are separated
// from a command's own flags, which CLI11 reads; a misspelt flag is refused with the nearest one that exists.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/cli/command.h"

namespace CLI {
class App;
}

namespace trireme::cli {

struct SplitArguments {
  std::vector<std::string> own;       // flags, file names
  std::vector<std::string> settings;  // for ConfigSources::command_line
};
// A setting without "=" takes the argument after it along. What follows the flag `about_settings` is its
// value, even if it looks like a setting.
SplitArguments split_settings(std::span<const std::string> arguments, std::string_view about_settings = "");

// How a command ends that does not run: with its help, or with what is wrong about its arguments.
struct ArgumentsEnd {
  int code = 0;
  std::string text;
};
// Reads `arguments` into what `app` is bound to. Returns nothing where the command goes on.
std::optional<ArgumentsEnd> read_arguments(CLI::App& app, const std::vector<std::string>& arguments,
                                           std::string_view more_help = "");
// The same, and prints what it says. Returns an exit code when the command is over: help was
// asked for and printed, or the arguments are wrong and that was said. `more_help` is printed after CLI11's.
std::optional<int> parse_arguments(CLI::App& app, const std::vector<std::string>& arguments,
                                   std::string_view more_help = "");
// Those of a command that takes settings as well: an option that does not exist may be one without its
// section.
std::optional<int> parse_arguments(CLI::App& app, const SplitArguments& split,
                                   std::string_view more_help = "");

// Finds the command that the first argument names and runs it with the rest: `trireme bench kernels …`.
int run_command_of(std::string_view parent, std::span<const Command> commands,
                   std::span<const std::string> arguments);

// Sizes as people write them, "8,1K,64K,1M": numbers with K, M or G (1024 each), in ascending order, each
// once. "8-64M" are powers of four from the one to the other, and the other. Throws Error.
std::vector<size_t> parse_sizes(const std::string& text);
// The inverse, of one: "64K"; "1000" where no unit fits.
std::string size_text(size_t bytes);

}  // namespace trireme::cli
