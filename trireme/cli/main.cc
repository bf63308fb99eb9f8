// `trireme`: finds the sub-command, runs it, and turns Errors into a message and an exit code.
#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/output.h"
#include "trireme/base/text.h"
#include "trireme/cli/command.h"
#include "trireme/comm/launch/last_words.h"
#include "trireme/kernels/device_fault.h"
#include "trireme/run/config.h"
#include "trireme/run/job.h"
#include "trireme/run/run_folder.h"

namespace {

using trireme::cli::Command;

constexpr Command kCommands[] = {
    {"train", "train a model; without a config, a small language model on this repository's text",
     trireme::cli::train},
    {"verify", "run a plan against one rank: equal, rounding, or a bug", trireme::cli::verify},
    {"sample", "generate text from a trained model", trireme::cli::sample},
    {"eval", "loss, accuracy and predictions of a trained model on held-out data", trireme::cli::eval},
    {"serve", "answer requests over HTTP with a trained model", trireme::cli::serve},
    {"export", "write a trained model as a Hugging Face folder", trireme::cli::export_model},
    {"inspect", "show a graph, a checkpoint or a run", trireme::cli::inspect},
    {"bench", "check and time kernels, collectives or training", trireme::cli::bench},
    {"plan", "search for the fastest plan of a training step on any cluster", trireme::cli::plan},
    {"simulate", "time a training step under a plan on any cluster, without running it",
     trireme::cli::simulate},
    {"place", "where the models of a workflow run at the least cost", trireme::cli::place},
    {"profile", "measure this machine and write it as a cluster file", trireme::cli::profile},
    {"reproduce", "numbers of five lecture decks, beside what Trireme makes of them",
     trireme::cli::reproduce},
    {"chaos", "fault drills on this machine: what becomes of a job when ranks, disks and links fail",
     trireme::cli::chaos},
    {"dashboard", "a page with runs, while they train and after", trireme::cli::dashboard},
    {"top", "the same as a table in a terminal", trireme::cli::top},
    {"config", "write a file with all settings to begin with", trireme::cli::config},
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
  return trireme::kUsage;
}

// Under `trireme -n` the launcher says it, once for all ranks.
void tell(const std::string& command, std::string_view why) {
  const std::string line = fmt::format("trireme {}: {}", command, why);
  if (!trireme::comm::tell_launcher(trireme::comm::LastWords::Kind::cause, line))
    trireme::say(stderr, "{}\n", line);
}

// Who has closed the other end of a pipe has seen enough, and needs no words.
int unwritten_output(const std::string& command, int error) {
  if (error != EPIPE) tell(command, fmt::format("the output could not be written: {}", std::strerror(error)));
  return trireme::kFailed;
}

int run(const Command& command, const std::vector<std::string>& arguments) {
  const std::string name(command.name);
  try {
    const int code = command.run(std::span<const std::string>(arguments).subspan(1));
    // What a run leaves behind is its folder; of all other commands the output is what was asked for.
    const bool written = std::fflush(stdout) == 0 || command.run == trireme::cli::train;
    return written || code != trireme::kOk ? code : unwritten_output(name, errno);
  } catch (const trireme::DeviceFault& fault) {
    tell(name, fault.what());
    trireme::cli::run_again_in_debug_order(arguments);
  } catch (const trireme::UsageError& error) {
    tell(name, trireme::printable(error.what()));
    return trireme::kUsage;
  } catch (const trireme::Error& error) {
    return trireme::report_failure("trireme " + name, error);
  } catch (const std::bad_alloc&) {
    tell(name, "out of memory; a smaller batch or model needs less");
  } catch (const std::system_error& error) {  // of fmt::print
    return unwritten_output(name, error.code().value());
  }
  return trireme::kFailed;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) {
    print_help(stderr);
    return trireme::kUsage;
  }
  const std::string name = arguments.front();
  if (name == "version" || name == "--version" || name == "-V") {
    fmt::print("trireme {}\n", trireme::version());
    return trireme::kOk;
  }
  if (name == "help" || name == "--help" || name == "-h") {
    print_help(stdout);
    return trireme::kOk;
  }
  for (const Command& command : kCommands) {
    if (command.name == name) return run(command, arguments);
  }
  return unknown_command(name);
}
