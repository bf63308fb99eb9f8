// See plan_facts.h.
#include "trireme/run/plan_facts.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "trireme/program/plan_summary.h"
#include "trireme/run/run_folder.h"

namespace trireme {
namespace {

using FactsJson = nlohmann::ordered_json;

constexpr int kPlanFactsFormat = 1;

// Ranks that do the same, by the number of their stage.
std::vector<std::vector<int>> ranks_of_stages(const Plan& plan) {
  const int pipe = plan.mesh.find(kPipeAxis);
  const Servers* const servers = plan.agreement.servers();
  std::vector<std::vector<int>> stages;
  for (int rank = 0; rank < plan.mesh.ranks(); ++rank) {
    int stage = pipe < 0 ? 0 : plan.mesh.coordinate(rank, pipe);
    if (servers) stage = std::min(rank, servers->count);
    if (std::ssize(stages) <= stage) stages.resize(static_cast<size_t>(stage) + 1);
    stages[static_cast<size_t>(stage)].push_back(rank);
  }
  return stages;
}

FactsJson mesh_json(const Mesh& mesh) {
  FactsJson axes = FactsJson::array();
  for (const Axis& axis : mesh.axes()) axes.push_back({{"axis", axis.name}, {"size", axis.size}});
  return axes;
}

FactsJson stage_json(int number, const std::vector<int>& ranks, const StageSummary& summary,
                     const Program& program) {
  FactsJson stage{{"stage", number},
                  {"ranks", ranks},
                  {"units", summary.units},
                  {"parameters", summary.parameters},
                  {"work", summary.work},
                  {"memory", memory_by_kind(program)},
                  {"peak_bytes", summary.peak},
                  {"sent_bytes", summary.sent_along}};
  if (summary.in_files > 0) stage["file_bytes"] = summary.in_files;
  return stage;
}

FactsJson parameter_json(const LyingAlike& one) {
  const auto extents = [](const Shape& shape) { return std::vector<int64_t>(shape.begin(), shape.end()); };
  return {{"name", one.name},        {"count", one.names.size()}, {"whole", extents(one.whole)},
          {"own", extents(one.own)}, {"axes", one.axes},          {"stages", one.programs}};
}

}  // namespace

std::string plan_facts_json(const Plan& plan, const Cut& cut,
                            const std::function<Program(int rank)>& program) {
  const std::vector<std::vector<int>> stages = ranks_of_stages(plan);
  std::vector<Program> programs;
  for (const std::vector<int>& ranks : stages) programs.push_back(program(ranks.front()));
  const std::vector<StageSummary> summaries = summarise(programs, cut);
  FactsJson facts{{"format", kPlanFactsFormat}, {"ranks", plan.mesh.ranks()}, {"mesh", mesh_json(plan.mesh)}};
  facts["stages"] = FactsJson::array();
  for (size_t i = 0; i < stages.size(); ++i)
    facts["stages"].push_back(stage_json(static_cast<int>(i), stages[i], summaries[i], programs[i]));
  facts["parameters"] = FactsJson::array();
  for (const LyingAlike& one : parameters_of(programs)) facts["parameters"].push_back(parameter_json(one));
  return facts.dump(1, ' ', false, FactsJson::error_handler_t::replace) + "\n";
}

void write_plan_facts(const std::string& folder, const Plan& plan, const Cut& cut,
                      const std::function<Program(int rank)>& program) {
  replace_file((std::filesystem::path(folder) / kPlanFactsFile).string(),
               plan_facts_json(plan, cut, program));
}

}  // namespace trireme
