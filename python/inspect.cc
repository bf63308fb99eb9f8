// Graph and Program: what a step computes, and what one rank runs of it, as text that reads back.
#include <fmt/format.h>

#include <algorithm>

#include "python/bindings.h"
#include "python/own_model.h"
#include "python/settings.h"
#include "trireme/base/text.h"
#include "trireme/ir/text.h"
#include "trireme/ops/table.h"
#include "trireme/program/build.h"
#include "trireme/program/text.h"
#include "trireme/train/step_programs.h"

namespace trireme::python {
namespace {

const ModelRecord* record_of(const OwnModel* own) {
  return own ? &own->record : nullptr;
}

Graph graph_of(const Settings& settings, const std::string& segment, const OwnModel* own) {
  const StepSubject step = step_subject(settings, record_of(own));
  const StepGraphs graphs = step_graphs(step.model, step.config.train, step.config.optim, step.shape,
                                        schedule_of(step.config.train));
  std::vector<std::string> names;
  for (const StepSegment& one : graphs.segments) {
    if (one.graph.name == segment) return optimized(one.graph);
    names.push_back(one.graph.name);
  }
  throw_error("this step has no segment '{}'; it has {}", segment, join(names, ", "));
}

Program program_of(const Settings& settings, const Plan& plan, int rank, const OwnModel* own) {
  const StepSubject step = step_subject(settings, record_of(own), plan);
  const StepPrograms programs(step.model, step.config.train, step.config.optim, step.shape, plan);
  return programs.rank(rank, nullptr);
}

}  // namespace

void bind_inspect(py::module_& module) {
  using Release = py::call_guard<py::gil_scoped_release>;
  py::class_<Graph>(module, "Graph",
                    "What one part of a step computes, on whole tensors. str() is its text form.")
      .def(py::init([](const std::string& text) { return parse_graph(text, ops()); }), py::arg("text"))
      .def_readonly("name", &Graph::name)
      .def_property_readonly(
          "ops",
          [](const Graph& graph) {
            std::vector<std::string> names;
            for (const Node& node : graph.nodes) names.emplace_back(node.op->name);
            return names;
          },
          "The names of its nodes' ops, in order.")
      .def("__repr__", [](const Graph& graph) { return print(graph); });
  py::class_<Program>(
      module, "Program",
      "What one rank runs: its states, its graphs with their places in memory, and the order of a "
      "step. str() is its text form.")
      .def(py::init([](const std::string& text) { return parse_program(text, ops()); }), py::arg("text"))
      .def_readonly("rank", &Program::rank)
      .def_readonly("parameters", &Program::parameters, "Of the whole model.")
      .def_property_readonly("peak_bytes", &Program::peak_bytes, "The memory that it takes.")
      .def("__repr__", [](const Program& program) { return print(program); });
  module.def("graph", &graph_of, Release(), py::arg("config"), py::arg("segment") = "first",
             py::arg("model") = nullptr);
  module.def("program", &program_of, Release(), py::arg("config"), py::arg("plan"), py::arg("rank") = 0,
             py::arg("model") = nullptr);
}

}  // namespace trireme::python
