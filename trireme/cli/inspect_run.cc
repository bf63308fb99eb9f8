// `trireme inspect run`: a summary of what a run wrote to its metrics.jsonl; with --learning, how fast it
// learned, of one run or of several that repeat it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>

#include "trireme/base/error.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/run_metrics.h"
#include "trireme/run/learning.h"

namespace trireme::cli {
namespace {

namespace fs = std::filesystem;

void run_line(std::string_view name, const std::string& value) {
  fmt::print("  {:<16} {}\n", name, value);
}

std::string file_of(const std::string& path) {
  const fs::path file = fs::is_directory(path) ? fs::path(path) / "metrics.jsonl" : fs::path(path);
  if (!fs::exists(file))
    throw_error("{}: there is no such file; is {} the folder of a run?", file.string(), path);
  return file;
}

void print_learning_row(const std::string& name, const Learning& learning) {
  fmt::print("  {:<24} {:>9.4f} {:>9.4f} {:>12.4g} {:>12.4g} {:>14.4g} {:>12.4g}\n", name,
             learning.first_loss, learning.last_loss, learning.records, learning.per_record(),
             learning.records_per_second(), learning.per_second());
}

void print_spread(std::string_view what, const std::vector<double>& values, size_t runs) {
  if (values.empty()) return;
  const SampleSpread spread = spread_of(values);
  run_line(what, fmt::format("{:.4g} ± {:.2g} ({:.4g} to {:.4g}; {} of {} runs)", spread.mean,
                             spread.deviation, spread.least, spread.most, spread.runs, runs));
}

enum class LearnedFrom { kTrainingLoss, kHeldOutLoss };

int print_learning(const std::vector<std::string>& paths, LearnedFrom from, std::optional<double> target) {
  constexpr int kParts = 4;
  std::vector<double> per_record, rates, per_second, last, seconds_to, records_to;
  std::string unit;
  for (const std::string& path : paths) {
    const RunMetrics metrics = read_metrics(file_of(path));
    if (!unit.empty() && unit != metrics.unit)
      throw_error("{} counts {}, and a run before it {}; runs to compare are of one kind", path, metrics.unit,
                  unit);
    unit = metrics.unit;
    fmt::print("{}\n  {:<24} {:>9} {:>9} {:>12} {:>12} {:>14} {:>12}\n", path, "", "loss from", "to", unit,
               "learned/" + unit.substr(0, unit.size() - 1), unit + "/s", "learned/s");
    if (from == LearnedFrom::kHeldOutLoss && metrics.held_out.size() < 2)
      throw_error(
          "{} has {} validations, and two at least are needed to tell what was learned on held-out data; train "
          "with a smaller train.eval_every, or leave out --held-out",
          path, metrics.held_out.size());
    const std::vector<LearningStep>& steps =
        from == LearnedFrom::kHeldOutLoss ? metrics.held_out : metrics.steps;
    const std::vector<Learning> parts = learning_by_part(steps, kParts);
    for (size_t i = 0; i < parts.size(); ++i)
      print_learning_row(fmt::format("part {} of {}", i + 1, parts.size()), parts[i]);
    const Learning whole = learning_of(steps);
    print_learning_row("all", whole);
    per_record.push_back(whole.per_record());
    rates.push_back(whole.records_per_second());
    per_second.push_back(whole.per_second());
    last.push_back(whole.last_loss);
    if (!target) continue;
    if (const auto when = reached(steps, *target)) {
      seconds_to.push_back(when->seconds);
      records_to.push_back(when->records);
      run_line(fmt::format("loss {:g}", *target),
               fmt::format("after {:.1f} s, {:.4g} {}, at step {:g}", when->seconds, when->records, unit,
                           when->step));
    } else {
      run_line(fmt::format("loss {:g}", *target), "not reached");
    }
  }
  if (paths.size() < 2) return kOk;
  fmt::print("\nspread over {} runs: mean ± deviation\n", paths.size());
  print_spread("last loss", last, paths.size());
  print_spread("learned/record", per_record, paths.size());
  print_spread(unit + "/s", rates, paths.size());
  print_spread("learned/s", per_second, paths.size());
  print_spread("s to target", seconds_to, paths.size());
  print_spread(unit + " to target", records_to, paths.size());
  return kOk;
}

}  // namespace

int inspect_run(std::span<const std::string> arguments) {
  std::vector<std::string> paths;
  int width = 72;
  bool learning = false, held_out = false;
  std::optional<double> target;
  CLI::App app("Shows how a run went.", "trireme inspect run");
  app.add_option("dir", paths, "the run's folder, or its metrics.jsonl; several with --learning")->required();
  app.add_option("--width", width, "width of the curve in characters; default 72")
      ->check(CLI::Range(20, 400));
  CLI::Option* learns = app.add_flag("--learning", learning,
                                     "learning per second: learning per record times records per second");
  app.add_flag("--held-out", held_out, "the same of losses on held-out data, from the first validation on")
      ->needs(learns);
  app.add_option("--target", target, "show when this loss was reached")->needs(learns);
  if (const auto code = parse_arguments(app, {arguments.begin(), arguments.end()})) return *code;
  if (learning)
    return print_learning(paths, held_out ? LearnedFrom::kHeldOutLoss : LearnedFrom::kTrainingLoss, target);
  if (paths.size() > 1)
    throw_error("{} runs given; one expected, or --learning to compare them", paths.size());

  const RunMetrics metrics = read_metrics(file_of(paths[0]));
  fmt::print("{}\n", paths[0]);
  fmt::print("{}", summary_of(metrics));
  fmt::print("\nloss (*){} by step\n{}", metrics.validation.empty() ? "" : " and validation loss (o)",
             draw_curve(metrics.loss, metrics.validation, width));
  return kOk;
}

}  // namespace trireme::cli
