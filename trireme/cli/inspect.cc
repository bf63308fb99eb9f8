// `trireme inspect`: finds the part that is asked for.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/plan/combinations.h"

namespace trireme::cli {
namespace {

constexpr Command kInspectParts[] = {
    {"graph", "the graph of a training step as text, and what its ops cost", inspect_graph},
    {"plan", "how a plan spreads a model: stages, memory, layouts, traffic, the timeline", inspect_plan},
    {"program", "what a rank does under a plan: layouts, collectives, bytes", inspect_program},
    {"combinations", "what does not go together, and why: docs/combinations.md", inspect_combinations},
    {"exchange", "what each method by which replicas agree would send and keep", inspect_exchange},
    {"collectives", "what each all-reduce algorithm sends, and its time over a link", inspect_collectives},
    {"schedule", "the timeline of a pipeline schedule, as text and SVG", inspect_schedule},
    {"checkpoint", "the tensors in a checkpoint or safetensors file; are its checksums right?",
     inspect_checkpoint},
    {"numbers", "limits of number formats; rounding, swamping, underflow", inspect_numbers},
    {"run", "how a run went: losses, speed, a curve", inspect_run},
    {"curvature", "how sharp the minimum of a run is; the loss on the line between two runs",
     inspect_curvature},
    {"flight", "what each rank did last when one was lost or stuck", inspect_flight},
    {"onnx", "what an ONNX file needs; which test cases of ONNX pass", inspect_onnx},
};

}  // namespace

int inspect(std::span<const std::string> arguments) {
  return run_command_of("inspect", kInspectParts, arguments);
}

// The table of what does not go together, as docs/combinations.md has it.
int inspect_combinations(std::span<const std::string> arguments) {
  CLI::App app("Prints what does not go together, and why, as docs/combinations.md has it.",
               "trireme inspect combinations");
  if (const auto code = parse_arguments(app, {arguments.begin(), arguments.end()})) return *code;
  fmt::print("{}", combinations_document());
  return kOk;
}

}  // namespace trireme::cli
