// `trireme`: finds the sub-command, runs it, and turns Errors into a message and an exit code.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <new>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/cli/command.h"
#include "trireme/cli/fault_rerun.h"
#include "trireme/kernels/device_fault.h"
#include "trireme/train/run_folder.h"

namespace {

using trireme::cli::Command;

constexpr Command kCommands[] = {
    {"train", "train a model; without a config, a small language model on this repository's text",
     trireme::cli::train},
    {"verify", "run a plan against one rank: equal, rounding, or a bug", trireme::cli::verify},
    {"sample", "generate text from a trained model", trireme::cli::sample},
    {"export", "write a trained model as a Hugging Face folder", trireme::cli::export_model},
    {"inspect", "show a graph, a checkpoint or a run", trireme::cli::inspect},
    {"bench", "check and time kernels, collectives or training", trireme::cli::bench},
    {"plan", "search for the fastest plan of a training step on any cluster", trireme::cli::plan},
    {"simulate", "time a training step under a plan on any cluster, without running it",
     trireme::cli::simulate},
    {"profile", "measure this machine and write it as a cluster file", trireme::cli::profile},
    {"doctor", "what this machine has, and what to install", trireme::cli::doctor},
};

void print_help(std::FILE* out) {
  fmt::print(out, "usage: trireme COMMAND [ARGUMENTS]\n\n");
  for (const Command& command : kCommands) fmt::print(out, "  {:<9} {}\n", command.name, command.summary);
  fmt::print(
      out, "\n`trireme COMMAND --help` says what a command takes; `trireme --version` which one this is.\n");
}

int unknown_command(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : kCommands) names.emplace_back(command.name);
  const std::string guess = trireme::nearest(name, names);
  fmt::print(stderr, "trireme: there is no command '{}'{}\n\n", name,
             guess.empty() ? "" : fmt::format("; did you mean '{}'?", guess));
  print_help(stderr);
  return trireme::cli::kUsage;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) {
    print_help(stderr);
    return trireme::cli::kUsage;
  }
  const std::string name = arguments.front();
  if (name == "version" || name == "--version" || name == "-V") {
    fmt::print("trireme {}\n", trireme::version());
    return trireme::cli::kOk;
  }
  if (name == "help" || name == "--help" || name == "-h") {
    print_help(stdout);
    return trireme::cli::kOk;
  }
  for (const Command& command : kCommands) {
    if (command.name != name) continue;
    try {
      return command.run(std::span<const std::string>(arguments).subspan(1));
    } catch (const trireme::DeviceFault& fault) {
      fmt::print(stderr, "trireme {}: {}\n", name, fault.what());
      trireme::cli::run_again_in_debug_order(arguments);
    } catch (const trireme::Error& error) {
      // What was found may be of a file that anybody wrote.
      fmt::print(stderr, "trireme {}: {}\n", name, trireme::printable(error.what()));
    } catch (const std::bad_alloc&) {
      fmt::print(stderr, "trireme {}: out of memory; a smaller batch or model needs less\n", name);
    }
    return trireme::cli::kFailed;
  }
  return unknown_command(name);
}
