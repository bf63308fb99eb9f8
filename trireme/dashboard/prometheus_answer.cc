// See answers.h. All are gauges: a run that resumes from a checkpoint goes back some steps.
#include <fmt/format.h>

#include <array>
#include <optional>

#include "trireme/base/text.h"
#include "trireme/dashboard/answers.h"

namespace trireme::dashboard {
namespace {

struct Gauge {
  const char *name, *help;
  std::optional<double> (*value)(const RunSummary&);
};

constexpr const char* kMemory = "planned_memory_bytes";

constexpr std::array kGauges = {
    Gauge{"running", "1 while a process trains the run, else 0.",
          [](const RunSummary& run) { return std::optional(run.state == "running" ? 1.0 : 0.0); }},
    Gauge{"step", "Steps done.", [](const RunSummary& run) { return run.step; }},
    Gauge{"planned_steps", "Steps that the run is to make.", [](const RunSummary& run) { return run.steps; }},
    Gauge{"loss", "Loss of the last step.", [](const RunSummary& run) { return run.loss; }},
    Gauge{"validation_loss", "Loss of the last evaluation on held-out data.",
          [](const RunSummary& run) { return run.validation_loss; }},
    Gauge{"records_per_second", "Tokens or samples a second in the last step.",
          [](const RunSummary& run) { return run.rate; }},
    Gauge{"model_flops_utilization_ratio", "Share of the devices' peak in the last step.",
          [](const RunSummary& run) { return run.mfu; }},
    Gauge{"training_seconds", "Time that the run has trained.",
          [](const RunSummary& run) { return run.seconds; }},
    Gauge{"written_timestamp_seconds", "When metrics were written last.",
          [](const RunSummary& run) { return run.changed; }}};

std::string label(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string prometheus_answer(const Runs& runs) {
  std::string text;
  for (const Gauge& gauge : kGauges) {
    text += fmt::format("# HELP trireme_run_{0} {1}\n# TYPE trireme_run_{0} gauge\n", gauge.name, gauge.help);
    for (size_t i = 0; i < runs.size(); ++i) {
      const std::optional<double> value = runs[i].gone ? std::nullopt : gauge.value(runs[i].summary);
      if (value)
        text += fmt::format("trireme_run_{}{{run=\"{}\"}} {}\n", gauge.name, label(runs[i].name), *value);
    }
  }
  text += fmt::format(
      "# HELP trireme_run_{0} Memory of rank 0 as planned, by what it is for.\n# TYPE trireme_run_{0} gauge\n",
      kMemory);
  for (size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].gone) continue;
    for (const auto& [kind, bytes] : runs[i].summary.memory)
      text += fmt::format("trireme_run_{}{{run=\"{}\",kind=\"{}\"}} {}\n", kMemory, label(runs[i].name),
                          label(kind), bytes);
  }
  return text;
}

}  // namespace trireme::dashboard
