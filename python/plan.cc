// Plan and Cluster, and the search for the fastest plan.
#include <fmt/format.h>

#include "python/bindings.h"
#include "python/calling_thread.h"
#include "python/own_model.h"
#include "python/settings.h"
#include "trireme/base/text.h"
#include "trireme/mesh/cluster_file.h"
#include "trireme/planner/report.h"
#include "trireme/planner/search.h"
#include "trireme/run/plan_subject.h"

namespace trireme::python {
namespace {

// What a search found, with what it searched, for questions afterwards.
struct FoundPlan {
  planner::Subject subject;
  Cluster cluster;
  planner::SearchOptions options;
  planner::SearchResult result;

  const planner::Found& best() const { return result.best(); }
};

// Without simulations that would still ask whether they are to stop when there is nobody to ask.
planner::SearchResult search_interruptible(const FoundPlan& found, planner::SearchOptions options) {
  return run_interruptible([&](const std::atomic<bool>& stop) {
    options.stop = &stop;
    try {
      planner::SearchResult result = planner::search(found.subject, found.cluster, options);
      result.unfinished = nullptr;
      return result;
    } catch (planner::Interrupted& interrupted) {
      interrupted.unfinished = nullptr;
      throw;
    }
  });
}

FoundPlan find_plan(const Settings& settings, const Cluster& cluster, const OwnModel* own, int ranks,
                    int effort, double seconds) {
  const StepSubject step = step_subject(settings, own ? &own->record : nullptr);
  Cluster used = step.config.train.tf32 ? with_tf32(cluster) : cluster;
  if (ranks > 0) used = with_devices(std::move(used), ranks);
  FoundPlan found{plan_subject(step.model, step.config, step.shape.sample), used, {}, {}};
  found.options.effort = effort;
  found.options.seconds = seconds;
  found.result = search_interruptible(found, found.options);
  return found;
}

std::string why_not(const FoundPlan& found, const std::string& wish) {
  planner::SearchOptions options = found.options;
  options.wish = planner::parse_wish(wish);
  const planner::SearchResult part = search_interruptible(found, options);
  const planner::Found &best = found.best(), &other = part.best();
  std::string text = fmt::format("{}: {:.6g} s a step, {:+.1f} % of the best\n", to_string(other.choice),
                                 other.report.step_seconds,
                                 100 * (other.report.step_seconds / best.report.step_seconds - 1));
  for (const planner::Difference& where : planner::differences(best, other))
    text += fmt::format("  {:+.6g} s a rank on average: {}\n", where.seconds, where.what);
  return text;
}

std::string summary(const FoundPlan& found) {
  const planner::Found& best = found.best();
  const sim::RankReport& fullest = best.report.fullest();
  return fmt::format(
      "{}\n  step    {:.6g} s, no plan of the space takes less than {:.6g} s\n  memory  {} of {} on rank {}\n  plan    {}\n",
      to_string(best.choice), best.report.step_seconds, found.result.least_seconds,
      format_bytes(fullest.memory.peak_bytes),
      format_bytes(static_cast<size_t>(fullest.device->memory_bytes)), fullest.rank, to_json(best.plan));
}

}  // namespace

void bind_plan(py::module_& module) {
  py::class_<Plan>(
      module, "Plan",
      "How a step is spread over ranks: a preset's name, a mesh like \"data:2 pipe:2\", a plan in JSON, "
      "or the path of a file with one.")
      .def(py::init([](const std::string& text, int ranks) { return read_plan(text, ranks); }),
           py::arg("text"), py::arg("ranks") = 0)
      .def_property_readonly("ranks", [](const Plan& plan) { return plan.mesh.ranks(); })
      .def_property_readonly("mesh", [](const Plan& plan) { return to_string(plan.mesh); })
      .def_readonly("preset", &Plan::preset)
      .def(
          "__eq__", [](const Plan& a, const Plan& b) { return to_json(a) == to_json(b); }, py::is_operator())
      .def("__repr__", [](const Plan& plan) { return to_json(plan); });

  py::class_<Cluster>(module, "Cluster",
                      "The machines of a job: a cluster file, or one that comes with Trireme.")
      .def(py::init([](const std::string& text, int hosts) {
             Cluster cluster = read_cluster(text);
             return hosts > 0 ? with_hosts(std::move(cluster), hosts) : cluster;
           }),
           py::arg("name"), py::arg("hosts") = 0)
      .def_static("names", &shipped_clusters, "Those that come with Trireme.")
      .def_readonly("name", &Cluster::name)
      .def_property_readonly("devices", &Cluster::device_count)
      .def_property_readonly("hosts", &Cluster::host_count)
      .def("__repr__", [](const Cluster& cluster) { return to_toml(cluster); });

  py::class_<FoundPlan>(module, "FoundPlan",
                        "The fastest plan that a search found, and the bound that it proved.")
      .def_property_readonly("plan", [](const FoundPlan& found) { return found.best().plan; })
      .def_property_readonly(
          "seconds", [](const FoundPlan& found) { return found.best().report.step_seconds; }, "Of a step.")
      .def_property_readonly(
          "bound", [](const FoundPlan& found) { return found.result.least_seconds; },
          "No plan of the space takes less; 0: not known.")
      .def_property_readonly(
          "memory_bytes",
          [](const FoundPlan& found) { return found.best().report.fullest().memory.peak_bytes; },
          "Of the fullest rank.")
      .def_property_readonly("choices", [](const FoundPlan& found) { return found.result.choices; })
      .def_property_readonly("simulated", [](const FoundPlan& found) { return found.result.simulated; })
      .def("why_not", &why_not, py::arg("wish"),
           "The best plan with these choices, e.g. \"tensor=8,pipe=4\", and where it loses its time.")
      .def("__repr__", &summary);

  const planner::SearchOptions usual;
  module.def("find_plan", &find_plan, py::arg("config"), py::arg("cluster"), py::arg("model") = nullptr,
             py::arg("ranks") = 0, py::arg("effort") = usual.effort, py::arg("seconds") = usual.seconds);
}

}  // namespace trireme::python
