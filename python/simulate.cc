// A step on the clock of a cluster: its time, its memory and the rows of its timeline.
#include "trireme/sim/simulate.h"

#include <fmt/format.h>

#include "python/bindings.h"
#include "python/calling_thread.h"
#include "python/own_model.h"
#include "python/settings.h"
#include "trireme/base/text.h"
#include "trireme/sim/draw.h"
#include "trireme/train/axis_algorithms.h"
#include "trireme/train/step_programs.h"

namespace trireme::python {
namespace {

struct Simulation {
  sim::SimReport report;
  Plan plan;
  std::string title;
};

// A bar of the timeline.
struct TimelineRow {
  int rank;
  double start, end;
  std::string kind, name;
};

Simulation simulate_step(const Settings& settings, const Plan& plan, const Cluster& cluster,
                         const OwnModel* own, bool overlap) {
  const StepSubject step = step_subject(settings, own ? &own->record : nullptr, plan);
  const Cluster used = step.config.train.tf32 ? with_tf32(cluster) : cluster;  // outlives the map
  const DeviceMap device_map(plan.mesh, used);
  Simulation result{
      .plan = plan,
      .title = fmt::format("{}, {} on {}", step.model.record.family, to_string(plan.mesh), cluster.name)};
  result.report = run_interruptible([&](const std::atomic<bool>&) {
    const StepPrograms programs(step.model, step.config.train, step.config.optim, step.shape, plan);
    return sim::simulate(device_map, [&](int rank) { return programs.rank(rank, nullptr); },
                         {.algorithms = axis_algorithms(plan, step.config.train),
                          .overlap = overlap ? sim::Overlap::kAsPlanned : sim::Overlap::kNone,
                          .events = sim::Events::kRecorded,
                          .plan = plan});
  });
  return result;
}

std::string kind_of(const TraceEvent& event) {
  if (event.track == TraceEvent::Track::kCommunication) return "communication";
  return event.name == sim::kWaitEvent ? "wait" : "compute";
}

std::vector<TimelineRow> rows_of(const Simulation& simulation) {
  std::vector<TimelineRow> rows;
  for (const sim::RankReport& rank : simulation.report.ranks) {
    for (const TraceEvent& event : rank.time.events)
      rows.push_back({rank.rank, event.begin, event.end, kind_of(event), event.name});
  }
  return rows;
}

std::string summary_of(const Simulation& simulation) {
  const sim::RankReport& fullest = simulation.report.fullest();
  return fmt::format("{}\n  step    {:.6g} s, bubble {:.1f} %\n  memory  {} of {} on rank {}\n",
                     simulation.title, simulation.report.step_seconds, 100 * simulation.report.bubble,
                     format_bytes(fullest.memory.peak_bytes),
                     format_bytes(static_cast<size_t>(fullest.device->memory_bytes)), fullest.rank);
}

}  // namespace

void bind_simulate(py::module_& module) {
  py::class_<TimelineRow>(module, "TimelineRow",
                          "A bar of the timeline; seconds from the beginning of the step.")
      .def_readonly("rank", &TimelineRow::rank)
      .def_readonly("start", &TimelineRow::start)
      .def_readonly("end", &TimelineRow::end)
      .def_readonly("kind", &TimelineRow::kind, "\"compute\", \"communication\" or \"wait\".")
      .def_readonly("name", &TimelineRow::name)
      .def("__iter__",
           [](const TimelineRow& row) {
             return py::iter(py::make_tuple(row.rank, row.start, row.end, row.kind, row.name));
           })
      .def("__repr__", [](const TimelineRow& row) {
        return fmt::format("TimelineRow(rank={}, start={:.6g}, end={:.6g}, kind='{}', name='{}')", row.rank,
                           row.start, row.end, row.kind, row.name);
      });
  py::class_<Simulation>(module, "Simulation", "A simulated step. Notebooks show its timeline.")
      .def_property_readonly(
          "seconds", [](const Simulation& one) { return one.report.step_seconds; }, "Of the step.")
      .def_property_readonly(
          "bubble", [](const Simulation& one) { return one.report.bubble; },
          "The share of the step in which ranks wait for other stages.")
      .def_property_readonly(
          "bytes_sent", [](const Simulation& one) { return one.report.bytes_sent; }, "By all ranks together.")
      .def_property_readonly(
          "memory_bytes", [](const Simulation& one) { return one.report.fullest().memory.peak_bytes; },
          "Of the fullest rank.")
      .def_property_readonly(
          "rows", &rows_of,
          "The timeline, of every rank that was simulated: one may stand for others that do the same.")
      .def(
          "svg", [](const Simulation& one) { return sim::draw_svg(one.report, one.plan.mesh, one.title); },
          "The timeline as a picture.")
      .def("_repr_svg_",
           [](const Simulation& one) { return sim::draw_svg(one.report, one.plan.mesh, one.title); })
      .def(
          "trace", [](const Simulation& one) { return sim::trace_of(one.report, one.plan.mesh); },
          "The timeline as a file for ui.perfetto.dev.")
      .def("__repr__", &summary_of);
  module.def("simulate", &simulate_step, py::arg("config"), py::arg("plan"), py::arg("cluster"),
             py::arg("model") = nullptr, py::arg("overlap") = true);
}

}  // namespace trireme::python
