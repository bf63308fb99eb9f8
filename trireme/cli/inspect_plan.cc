// `trireme inspect plan`: what a plan makes of a model before anything is run: stages, memory by kind, how
// parameters lie, bytes sent in a step, and for pipelines the timeline.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <set>

#include "trireme/base/text.h"
#include "trireme/bench/step_setup.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/step_flags.h"
#include "trireme/cli/write_file.h"
#include "trireme/program/plan_summary.h"
#include "trireme/schedule/draw.h"
#include "trireme/schedule/pipeline_table.h"
#include "trireme/train/axis_algorithms.h"
#include "trireme/train/trainer.h"

namespace trireme::cli {
namespace {

std::string parts_text(const std::vector<std::string>& units) {
  if (units.empty()) return "all";
  return units.size() < 4 ? join(units, ", ") : fmt::format("{} … {}", units.front(), units.back());
}

void print_stages(const std::vector<StageSummary>& stages) {
  std::set<std::string> roles;
  for (const StageSummary& stage : stages) {
    for (const auto& [role, bytes] : stage.bytes_by_role) roles.insert(role);
  }
  fmt::print("## Stages (of each: one rank)\n\n| stage | has | parameters | work |");
  for (const std::string& role : roles) fmt::print(" {} |", role);
  fmt::print(
      " working | comm | inputs | planned peak | in files | sent in collectives | in messages |\n"
      "|---|---|---|---|");
  for (size_t i = 0; i < roles.size() + 7; ++i) fmt::print("---|");
  fmt::print("\n");
  for (size_t s = 0; s < stages.size(); ++s) {
    const StageSummary& stage = stages[s];
    fmt::print("| {} | {} | {} | {:.0f} % |", s, parts_text(stage.units), stage.parameters,
               100 * stage.work / static_cast<double>(stages.size()));
    for (const std::string& role : roles) {
      const auto bytes = stage.bytes_by_role.find(role);
      fmt::print(" {} |", bytes == stage.bytes_by_role.end() ? "" : format_bytes(bytes->second));
    }
    fmt::print(" {} | {} | {} | {} | {} | {} | {} |\n", format_bytes(stage.working), format_bytes(stage.comm),
               format_bytes(stage.inputs), format_bytes(stage.peak),
               stage.in_files == 0 ? "" : format_bytes(stage.in_files),
               format_bytes(static_cast<size_t>(stage.sent_in_collectives)),
               format_bytes(static_cast<size_t>(stage.sent_in_messages)));
  }
}

void print_layouts(const std::vector<Program>& ranks) {
  fmt::print("\n## Parameters\n\n| name | how many | whole | at rest on a rank |\n|---|---|---|---|\n");
  for (const LyingAlike& one : parameters_of(ranks))
    fmt::print("| {} | {} | {} | {} |\n", one.name, one.names.size(), to_string(one.whole),
               to_string(one.own));
}

void print_timeline(const std::vector<Program>& ranks, const Pipeline& of_step, const std::string& title,
                    int columns, const std::string& svg) {
  // Asynchronous steps are seen in a row.
  const int64_t steps = is_asynchronous(of_step) ? 4 : 1;
  const Pipeline pipeline = unroll(of_step, steps);
  // In parts of a thousand of all, so that the numbers can be read.
  std::vector<ChunkTimes> costs = chunk_costs(ranks, pipeline);
  const double whole = timeline(pipeline, {.chunks = costs}).step;
  for (ChunkTimes& cost : costs) {
    for (double* time : {&cost.forward, &cost.backward, &cost.weight}) *time *= 1000 / whole;
  }
  const Timeline line = timeline(pipeline, {.chunks = costs});
  fmt::print(
      "\n## Timeline\n\nBy the costs of the ops' records, {} as 1000; messages take no "
      "time.\n\n```\n{}```\n{}\n",
      steps == 1 ? "the step" : "four steps", draw_text(pipeline, line, columns), caption(line));
  if (svg.empty()) return;
  write_file(svg, draw_svg(pipeline, line, title), "picture");
  fmt::print("picture: {}\n", svg);
}

}  // namespace

int inspect_plan(std::span<const std::string> arguments) {
  const SplitArguments split = split_settings(arguments);
  bench::StepSource source;
  source.settings = split.settings;
  std::string plan_text, svg;
  int ranks = 0, columns = 120;
  CLI::App app("Prints how a plan spreads a model: stages, memory, layouts, traffic.",
               "trireme inspect plan");
  add_step_flags(app, source);
  add_plan_flag(app, plan_text)->required();
  app.add_option("-n,--ranks", ranks, "ranks; default: as many as the plan's mesh has")
      ->check(CLI::Range(1, 65536));
  app.add_option("--columns", columns, "most characters of a line of the timeline; default 120")
      ->check(CLI::Range(10, 10000));
  app.add_option("--svg", svg, "also write a picture of the timeline to this file");
  if (const auto code = parse_arguments(app, split)) return *code;

  const Plan plan = read_plan(plan_text, ranks);
  const bench::StepSetup setup = bench::set_up_step(source, plan);
  const Config& config = setup.config;
  axis_algorithms(plan, config.train);
  const Schedule schedule = schedule_of(config.train, plan);
  const Cut cut = step_graphs(config.model, config.train, config.optim, setup.shape, schedule, plan).cut;
  const std::unique_ptr<Device> device = make_cpu_device(1);
  std::vector<Program> programs;  // of the first rank of each stage
  const int stages = plan.pipeline_stages();
  for (int rank = 0; rank < plan.mesh.ranks() && std::ssize(programs) < stages; ++rank) {
    if (stages > 1 && plan.mesh.coordinate(rank, plan.mesh.axis(kPipeAxis)) != std::ssize(programs)) continue;
    programs.push_back(
        step_program(config.model, config.train, config.optim, setup.shape, *device, {plan, rank}));
  }
  const std::string title =
      fmt::format("{}, {}, {} on the mesh '{}', {} microbatches", config.model.family, config.train.precision,
                  plan.preset, to_string(plan.mesh), schedule.microbatches);
  fmt::print("# {}\n\n", title);
  print_stages(summarise(programs, cut));
  print_layouts(programs);
  if (stages > 1)
    print_timeline(programs, pipeline_of(plan, schedule.microbatches), title, columns, svg);
  else if (!svg.empty())
    fmt::print("\nThe plan has no stages, and so no timeline to draw.\n");
  return kOk;
}

}  // namespace trireme::cli
