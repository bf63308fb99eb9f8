// `trireme place WORKFLOW`: where the models of a workflow run, and which variant of each.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/output.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/place_run.h"
#include "trireme/cli/write_file.h"
#include "trireme/place/placement_file.h"
#include "trireme/place/report.h"
#include "trireme/place/workflow_file.h"

namespace trireme::cli {
namespace {

struct PlaceFlags {
  std::string workflow, output;
  double accuracy = -1, rate = -1, load = -1, p99 = -1, seconds = 60;
  bool shared = false, compare = false, prices = false, simulate = false, run = false, says_requests = false;
  std::string placement;  // a file, in the place of a search
  place::Requests requests;
  PlaceRun how;
};

// What the command line says instead of the file.
place::Workflow asked_workflow(const PlaceFlags& flags) {
  place::Workflow workflow = place::read_workflow(flags.workflow);
  if (flags.accuracy >= 0) workflow.accuracy = flags.accuracy;
  if (flags.load >= 0) workflow.load = flags.load;
  if (flags.shared) workflow.shared = true;
  if (flags.rate >= 0) {
    for (place::Source& source : workflow.sources) source.rate = flags.rate;
  }
  place::check(workflow, flags.workflow);
  return workflow;
}

// Those of ten seconds, where nothing else is said.
place::Requests requests_of_run(const PlaceFlags& flags, const place::Workflow& workflow) {
  constexpr double kSeconds = 10;
  place::Requests requests = flags.requests;
  if (!flags.says_requests)
    requests.count = std::max<int64_t>(100, std::llround(kSeconds * place::request_rate(workflow)));
  return requests;
}

int run(const PlaceFlags& flags, const place::Workflow& workflow, const place::BestPlacement& best,
        std::span<const std::string> given) {
  PlaceRun how = flags.how;
  how.folder = std::filesystem::path(flags.workflow).parent_path().string();
  return run_placed(workflow, best.placement, place::to_json(workflow, best),
                    requests_of_run(flags, workflow), how, given);
}

int place_workflow(const PlaceFlags& flags, std::span<const std::string> given) {
  place::Workflow workflow = asked_workflow(flags);
  if (flags.prices) {
    say("{}", place::to_text(workflow, place::accuracy_prices(workflow, flags.seconds)));
    return kOk;
  }
  place::BestPlacement best;
  if (!flags.placement.empty()) {
    best.placement = place::read_placement(flags.placement, workflow);
    if (flags.run && is_placed_rank()) return run(flags, workflow, best, given);
  } else if (flags.p99 >= 0) {
    place::InTime found = place::best_in_time(workflow, flags.p99 / 1000, flags.requests, flags.seconds);
    // Other ways are then compared at this load.
    workflow.load = found.load;
    best = std::move(found.best);
    say("load     {:.2f}, at which 99 % of the requests are answered within {} ms\n\n", workflow.load,
        flags.p99);
  } else {
    best = place::best_placement(workflow, {}, flags.seconds);
  }
  say("{}",
      flags.placement.empty() ? place::to_text(workflow, best) : place::to_text(workflow, best.placement));
  if (flags.compare) say("\n{}", place::to_text(workflow, place::baselines(workflow, flags.seconds), best));
  if (flags.simulate) {
    const place::PlacedFlow placed = place::flow_of(workflow, best.placement);
    say("\n{}", place::to_text(placed, place::simulate_requests(workflow, placed, flags.requests)));
  }
  if (!flags.output.empty()) write_json(flags.output, place::to_json(workflow, best));
  if (!flags.run) return kOk;
  say("\n");
  return run(flags, workflow, best, given);
}

}  // namespace

int place(std::span<const std::string> given) {
  CLI::App app(
      "Places a workflow of models on workers at the least cost: which variant of each op, which workers to rent, and "
      "how much each of them takes. docs/placement.md describes the file.",
      "trireme place");
  PlaceFlags flags;
  app.add_option("workflow", flags.workflow, "the workflow, in TOML")->required();
  app.add_option("--accuracy", flags.accuracy, "of the answers, at least; default: the file's")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--rate", flags.rate, "messages a second of each source; default: the file's")
      ->check(CLI::PositiveNumber);
  app.add_option("--load", flags.load,
                 "share of its time in which a worker computes, at most; default: the file's")
      ->check(CLI::Range(0.0, 1.0));
  app.add_flag("--shared", flags.shared, "a worker may run several ops");
  app.add_flag("--compare", flags.compare,
               "also other ways: greedy, the most accurate variants, one tier alone");
  app.add_flag("--prices", flags.prices, "instead: what each accuracy costs");
  app.add_option("--p99", flags.p99,
                 "milliseconds within which 99 % of simulated requests are to be answered")
      ->check(CLI::PositiveNumber);
  app.add_flag("--simulate", flags.simulate, "also requests that wait for workers");
  const CLI::Option* requests =
      app.add_option("--requests", flags.requests.count,
                     "that are simulated; with --run those that are sent: by default as many as come in 10 s")
          ->check(CLI::Range(1, 10'000'000))
          ->capture_default_str();
  app.add_option("--variation", flags.requests.variation,
                 "of the times between requests: 0 even, 1 independent, more in bursts")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app.add_option("--seed", flags.requests.seed, "of the times between requests")->capture_default_str();
  app.add_option("--seconds", flags.seconds, "to search, at most; then the best so far with its bound")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  app.add_option("--placement", flags.placement, "take this placement, which -o wrote, and search for none")
      ->type_name("FILE")
      ->take_last();
  app.add_flag(
      "--run", flags.run,
      "start each rented worker as a process here, over links as slow as the workflow says, and send "
      "requests");
  app.add_option("--answers", flags.how.answers,
                 "with --run: write what each op made of each request, as JSON lines")
      ->type_name("FILE");
  app.add_option("--json", flags.how.json, "with --run: write what was simulated and measured")
      ->type_name("FILE");
  app.add_option("--timeout", flags.how.timeout, "with --run: seconds without an answer after which it fails")
      ->check(CLI::Range(1.0, 86400.0))
      ->capture_default_str();
  app.add_option("-o,--output", flags.output, "also write the placement there, in JSON")->type_name("FILE");
  if (const auto code = parse_arguments(app, {given.begin(), given.end()})) return *code;
  flags.says_requests = requests->count() > 0;
  if (!flags.run && (!flags.how.answers.empty() || !flags.how.json.empty()))
    throw UsageError("--answers and --json are of a run; add --run");
  if (!flags.placement.empty() && (flags.p99 >= 0 || flags.prices || flags.compare))
    throw UsageError("--placement searches for nothing; leave out --p99, --prices and --compare");
  return place_workflow(flags, given);
}

}  // namespace trireme::cli
