// `trireme place WORKFLOW`: where the models of a workflow run, and which variant of each.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/output.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/write_file.h"
#include "trireme/place/report.h"
#include "trireme/place/workflow_file.h"

namespace trireme::cli {
namespace {

struct PlaceFlags {
  std::string workflow, output;
  double accuracy = -1, rate = -1, load = -1, seconds = 60, variation = 1;
  bool shared = false, compare = false, prices = false;
  int requests = 0;
  int seed = 1;
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

// Requests of all sources come together, as the joins of a workflow want them.
std::string simulated(const PlaceFlags& flags, const place::Workflow& workflow,
                      const place::Placement& placement) {
  const place::PlacedFlow placed = place::flow_of(workflow, placement);
  std::vector<place::Arrival> arrivals;
  for (const double time : place::arrival_times(workflow.sources[0].rate, flags.variation, flags.requests,
                                                static_cast<uint64_t>(flags.seed)))
    arrivals.push_back({time, 0});
  return place::to_text(
      placed, place::simulate_queues({placed.flow}, static_cast<int>(placed.servers.size()), arrivals));
}

int place_workflow(const PlaceFlags& flags) {
  const place::Workflow workflow = asked_workflow(flags);
  if (flags.prices) {
    say("{}", place::to_text(workflow, place::accuracy_prices(workflow, flags.seconds)));
    return kOk;
  }
  const place::BestPlacement best = place::best_placement(workflow, {}, flags.seconds);
  say("{}", place::to_text(workflow, best));
  if (flags.compare) say("\n{}", place::to_text(workflow, place::baselines(workflow, flags.seconds), best));
  if (flags.requests > 0) say("\n{}", simulated(flags, workflow, best.placement));
  if (!flags.output.empty()) write_json(flags.output, place::to_json(workflow, best));
  return kOk;
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
  app.add_option("--simulate", flags.requests, "also so many requests, one after another, with their waiting")
      ->check(CLI::Range(1, 10'000'000))
      ->type_name("REQUESTS");
  app.add_option("--variation", flags.variation,
                 "of the times between simulated requests: 0 even, 1 independent, more in bursts")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app.add_option("--seed", flags.seed, "of the simulated times")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--seconds", flags.seconds, "to search, at most; then the best so far with its bound")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  app.add_option("-o,--output", flags.output, "also write the placement there, in JSON")->type_name("FILE");
  if (const auto code = parse_arguments(app, {given.begin(), given.end()})) return *code;
  return place_workflow(flags);
}

}  // namespace trireme::cli
