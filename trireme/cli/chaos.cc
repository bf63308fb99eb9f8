// `trireme chaos`: fault drills on this machine (chaos/).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/chaos/report.h"
#include "trireme/chaos/runs.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/write_file.h"

namespace trireme::cli {
namespace {

struct ChaosFlags {
  chaos::Choice choice;
  chaos::RunsOptions runs;
  std::string json;
  bool list = false;
};

void print_result(const chaos::Result& result) {
  fmt::print("{}{}", chaos::table_line(result), chaos::soak_text(result));
  if (!result.kept())
    fmt::print("    {}\n    again: {}\n", printable(result.broken), chaos::command_of(result));
  std::fflush(stdout);
}

int run(const ChaosFlags& flags) {
  const std::vector<chaos::ChosenDrill> drills = chaos::chosen(flags.choice);
  if (flags.list) {
    for (const chaos::Drill& drill : chaos::drills()) fmt::print("{}", chaos::drill_line(drill));
    return kOk;
  }
  fmt::print("{}", chaos::table_head());
  const chaos::Runs runs = chaos::run_drills(drills, flags.runs, print_result);
  fmt::print("{}", chaos::summary_of(runs.results));
  if (runs.rounds > 1)
    fmt::print("{} rounds: {} open files after the first, {} at the end; {} of memory, {} at the end\n",
               runs.rounds, runs.after_first_round.descriptors, runs.at_end.descriptors,
               format_bytes(runs.after_first_round.resident_bytes), format_bytes(runs.at_end.resident_bytes));
  if (!flags.json.empty()) write_json(flags.json, chaos::json_of(runs.results));
  if (const std::string leak = runs.leak(); !leak.empty()) throw_error("the drills leak: {}", leak);
  if (!runs.all_kept()) return kFailed;
  fmt::print("all {} kept; again: trireme chaos --seed {}\n", runs.results.size(), flags.runs.seed);
  return kOk;
}

}  // namespace

int chaos(std::span<const std::string> arguments) {
  ChaosFlags flags;
  CLI::App app(
      "Runs fault drills: starts small jobs of `trireme train` on this machine, kills, stops and cuts off their ranks, "
      "takes their disk away, flips bits in their memory, and holds what becomes of them to what is promised. Fails if "
      "a promise is broken. See docs/reliability.md.",
      "trireme chaos");
  app.add_option("--seed", flags.runs.seed,
                 "decides which ranks are struck, and when; each round has the next one")
      ->capture_default_str();
  app.add_option("--only", flags.choice.only,
                 "only these drills, or those whose names begin so; --list shows all")
      ->type_name("DRILL");
  app.add_option("--transport", flags.choice.transport, "only over this one")
      ->check(CLI::IsMember({"shm", "tcp"}));
  app.add_option("--hosts", flags.choice.hosts,
                 "2: between two hosts, which are network namespaces of this machine; needs root")
      ->check(CLI::Range(1, 2))
      ->capture_default_str();
  app.add_option(
         "--plan", flags.choice.plans,
         "of the jobs: a plan file, a plan in JSON or the name of a preset, for 2 and 4 ranks; each drill is made "
         "under each of several")
      ->type_name("PLAN");
  auto* times = app.add_option("--times", flags.runs.times, "rounds")
                    ->check(CLI::Range(1, 1'000'000))
                    ->capture_default_str();
  app.add_option("--seconds", flags.runs.seconds, "rounds for so long, to see that nothing leaks")
      ->check(CLI::Range(1.0, 1e7))
      ->excludes(times);
  app.add_option("--soak", flags.choice.soak_seconds,
                 "one job that loses ranks for so many seconds; fails if open files, memory or /dev/shm grow")
      ->check(CLI::Range(1.0, 1e7));
  app.add_option("--json", flags.json, "write the results to this file")->type_name("FILE");
  app.add_flag("--list", flags.list, "show the drills, and run none");
  if (const auto code = parse_arguments(app, {arguments.begin(), arguments.end()})) return *code;
  return run(flags);
}

}  // namespace trireme::cli
