// `trireme config init`: a file of settings to begin with.
#include "trireme/run/config.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/write_file.h"

namespace trireme::cli {
namespace {

int init(std::span<const std::string> given) {
  const SplitArguments split = split_settings(given);
  std::string path = "trireme.toml";
  CLI::App app(
      "Writes a file with every setting and what it means. Settings on the command line\n"
      "are set in it; the others stand there as comments, with the defaults of the family.",
      "trireme config init");
  app.add_option("file", path, "what to write; default: trireme.toml; -: to the output");
  if (const auto code = parse_arguments(app, split, config_help())) return *code;
  const std::string text = config_template(resolve_config({.command_line = split.settings}));
  if (path == "-") {
    fmt::print("{}", text);
    return kOk;
  }
  if (std::filesystem::exists(path))
    throw_error("{} is there already; name another file, or remove it first", path);
  write_file(path, text, "file of settings");
  fmt::print("{}: edit it, then `trireme train {}`\n", path, path);
  return kOk;
}

constexpr Command kParts[] = {{"init", "write a file with every setting and its meaning", init}};

}  // namespace

int config(std::span<const std::string> given) {
  return run_command_of("config", kParts, given);
}

}  // namespace trireme::cli
