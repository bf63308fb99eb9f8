// See auto_plan.h. The model is completed from the data as the run does it, so that memory is that of the
// run.
#include "trireme/run/auto_plan.h"

#include <fmt/format.h>

#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/mesh/cluster_file.h"
#include "trireme/planner/search.h"
#include "trireme/run/loop.h"
#include "trireme/run/plan_subject.h"
#include "trireme/run/step_timeline.h"
#include "trireme/train/axis_algorithms.h"
#include "trireme/train/step_programs.h"

namespace trireme {
namespace {

constexpr const char* kLocalCluster = "local.toml";
// The other ranks wait for it: a few simulations, and on a busy machine no more than that takes.
constexpr int kSearchEffort = 24;
constexpr double kSearchSeconds = 120;

Config completed_by_data(Config config, const ModelRecord& model, const OpenedData& data, int ranks_here) {
  config.model = complete_model(model, config, data);
  config.train.threads = thread_count(config.train, ranks_here);
  return config;
}

}  // namespace

Cluster cluster_of_ranks(const std::string& text, int ranks) {
  const std::string measure = fmt::format("`trireme profile -n {} -o {}` measures this machine in a minute",
                                          ranks, text.empty() ? kLocalCluster : text);
  if (text.empty() && !std::filesystem::exists(kLocalCluster))
    throw_error(
        "--plan auto chooses by what this machine can do, and there is no {} here; {}. --cluster names "
        "another file",
        kLocalCluster, measure);
  try {
    return with_devices(read_cluster(text.empty() ? kLocalCluster : text), ranks);
  } catch (const Error& error) {
    throw_error("{}; {}", error.what(), measure);
  }
}

ChosenPlan choose_plan(const ResolvedConfig& resolved, const ModelRecord& model, const OpenedData& data,
                       const Cluster& cluster, int ranks_here) {
  const Config& config = resolved.config;
  if (config.run.resume != "never") {
    if (const std::optional<Plan> earlier = plan_of_earlier_run(config.run.dir);
        earlier && earlier->mesh.ranks() == cluster.device_count())
      return {*earlier, fmt::format("that of the run in {}, which is resumed", config.run.dir)};
  }
  if (config.train.batch_per_rank > 0)
    throw_error(
        "train.batch_per_rank is {}, but how many ranks share a batch is what --plan auto decides; say "
        "train.batch",
        config.train.batch_per_rank);
  planner::Wish wish;
  if (!resolved.is_default("train.accumulate"))
    wish["microbatches"] = std::to_string(config.train.accumulate);
  const Config whole = completed_by_data(config, model, data, ranks_here);
  const planner::Subject subject = plan_subject(Model(model, whole.model), whole, data.input);
  const planner::SearchResult found =
      planner::search(subject, cluster, {.wish = wish, .effort = kSearchEffort, .seconds = kSearchSeconds});
  const planner::Found& best = found.best();
  return {best.plan, fmt::format("{}; of {} plans on '{}', none is faster by more than {:.0f}%",
                                 to_string(best.choice), found.choices, cluster.name, 100 * found.gap())};
}

SimulatedStep simulated_step(Config config, const ModelRecord& model, const OpenedData& data,
                             const Plan& plan, const Cluster& cluster, int ranks_here) {
  config = completed_by_data(std::move(config), model, data, ranks_here);
  const StepPrograms programs(Model(model, config.model), config.train, config.optim,
                              {config.train.batch / config.train.accumulate, data.input}, plan);
  const DeviceMap device_map(plan.mesh, cluster);
  const std::unique_ptr<Device> device = device_here(config.train, static_cast<int>(config.train.threads));
  const sim::SimReport report = sim::simulate(
      device_map, [&](int rank) { return programs.rank(rank, device.get()); },
      {.algorithms = axis_algorithms(plan, config.train), .events = sim::Events::kRecorded, .plan = plan});
  return {{report.step_seconds, report.ranks.front().memory.peak_bytes}, timeline_json(report)};
}

}  // namespace trireme
