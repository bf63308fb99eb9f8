// `trireme bench batches`: trains a model at equal epochs with several batches, rules for the rate, warm-ups
// and optimizers, and compares the runs. What is finished is not trained again.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/line_chart.h"
#include "trireme/bench/batch_grid.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/step_flags.h"
#include "trireme/cli/write_file.h"
#include "trireme/run/run_setup.h"

namespace trireme::cli {
namespace {

using bench::BatchGrid;
using bench::CellResult;
using bench::CellSource;
using bench::GridCell;
using bench::StepsByBatch;

struct BatchFlags {
  std::string config, runs, json, svg;
  std::vector<std::string> optimizers, settings;
  BatchGrid grid;
  std::optional<double> target;
  bool list = false;
};

std::string dash_or(bool is_there, const std::string& text) {
  return is_there ? text : "-";
}

void print_cell_head(bool accuracy, double target) {
  fmt::print("{:<10}{:>7} {:<7}{:>8}{:>7}{:>10}{:>10}{:>10}{}{:>9}{:>11}{:>11}{:>11}{:>12}\n", "optimizer",
             "batch", "rule", "warm-up", "steps", "rate", "training", "held out",
             accuracy ? "  accuracy" : "", "gap", "sharpness", fmt::format("to {:.4g}", target), "noise",
             "learned/s");
}

void print_cell(const CellResult& result, bool accuracy, double target) {
  const GridCell& cell = result.cell;
  fmt::print("{:<10}{:>7} {:<7}{:>8}{:>7}{:>10.4g}", cell.optimizer, cell.batch, cell.rule,
             dash_or(cell.warmup_steps > 0, std::to_string(cell.warmup_steps)), cell.steps,
             result.highest_rate);
  if (!result.failure.empty()) {
    fmt::print("  did not end: the loss was not finite\n");
    return;
  }
  const std::optional<double> steps = result.steps_to(target);
  fmt::print("{:>10.4f}{:>10.4f}{}{:>9.4f}{:>11.4g}{:>11}{:>11}{:>12.3g}\n", result.training.loss,
             result.held_out.loss,
             accuracy ? fmt::format("{:>9.2f}%", 100 * result.held_out.accuracy.value_or(0)) : "",
             result.gap(), result.sharpness,
             dash_or(steps.has_value(), steps ? fmt::format("{:.4g}", *steps) : ""),
             dash_or(result.noise_scale.has_value(), fmt::format("{:.4g}", result.noise_scale.value_or(0))),
             result.learned_per_second());
}

void print_fit(const StepsByBatch& own) {
  fmt::print("\n{}: steps to the target, the least of each batch\n", own.optimizer);
  for (const BatchSteps& point : own.points) {
    fmt::print("  {:>7} {:>10.4g} steps, {:>10.4g} samples{}\n", point.batch, point.steps,
               point.batch * point.steps,
               own.fit ? fmt::format("; the curve has {:.4g} steps", own.fit->steps(point.batch)) : "");
  }
  if (own.fit)
    fmt::print(
        "  S = S_min (1 + B_c/B): S_min {:.4g} steps, B_c {:.4g} samples, E_min {:.4g} samples; off by {:.1f}%\n",
        own.fit->least_steps, own.fit->critical_batch, own.fit->least_samples(), 100 * own.fit->error);
  else
    fmt::print("  no curve: two batches are needed, and steps that fall as the batch grows\n");
  if (own.noise_scales)
    fmt::print("  noise scale that the runs measured (train.noise_scale): {:.4g} to {:.4g} samples\n",
               own.noise_scales->first, own.noise_scales->second);
}

nlohmann::ordered_json results_json(const std::vector<CellResult>& results, double target,
                                    const std::vector<StepsByBatch>& fits) {
  auto list = nlohmann::ordered_json::array();
  for (const CellResult& result : results) {
    const GridCell& cell = result.cell;
    nlohmann::ordered_json object{{"benchmark", "batches"},    {"optimizer", cell.optimizer},
                                  {"batch", cell.batch},       {"rule", cell.rule},
                                  {"warmup", cell.warmup},     {"warmup_steps", cell.warmup_steps},
                                  {"steps", cell.steps},       {"base_lr", cell.rate},
                                  {"lr", result.highest_rate}, {"run", cell.name()}};
    if (!result.failure.empty()) {
      object["failure"] = result.failure;
    } else {
      object["training_loss"] = result.training.loss;
      object["held_out_loss"] = result.held_out.loss;
      if (result.training.accuracy) object["training_accuracy"] = *result.training.accuracy;
      if (result.held_out.accuracy) object["held_out_accuracy"] = *result.held_out.accuracy;
      object["gap"] = result.gap();
      object["largest_eigenvalue"] = result.sharpness;
      object["residual"] = result.sharpness_residual;
      object["target"] = target;
      if (const auto steps = result.steps_to(target)) object["steps_to_target"] = *steps;
      if (result.noise_scale) object["noise_scale_samples"] = *result.noise_scale;
      object["learned_per_second"] = result.learned_per_second();
    }
    list.push_back(std::move(object));
  }
  for (const StepsByBatch& own : fits) {
    if (!own.fit) continue;
    list.push_back({{"benchmark", "critical_batch"},
                    {"optimizer", own.optimizer},
                    {"target", target},
                    {"least_steps", own.fit->least_steps},
                    {"critical_batch_samples", own.fit->critical_batch},
                    {"least_samples", own.fit->least_samples()},
                    {"error", own.fit->error}});
  }
  return list;
}

std::string steps_text(double steps) {
  return fmt::format("{:g}", steps);
}

std::string steps_picture(const std::vector<StepsByBatch>& all, double target) {
  LineChart chart{.title = "Steps to a held-out loss by batch",
                  .subtitle = fmt::format("to {:.4g}; dashed: S = S_min (1 + B_c/B)", target),
                  .x_label = "batch, samples",
                  .y_label = "steps",
                  .y_text = steps_text};
  size_t colour = 0;
  for (const StepsByBatch& own : all) {
    ++colour;
    LineChart::Line measured{{}, colour, LineChart::Style::kCircles},
        curve{{}, colour, LineChart::Style::kDashed};
    for (const BatchSteps& point : own.points) {
      const double place = std::log2(point.batch);
      measured.points.push_back({place, point.steps});
      if (own.fit) curve.points.push_back({place, own.fit->steps(point.batch)});
      const std::pair<double, std::string> mark{place, fmt::format("{:g}", point.batch)};
      if (std::ranges::find(chart.x_marks, mark) == chart.x_marks.end()) chart.x_marks.push_back(mark);
    }
    chart.lines.push_back(std::move(measured));
    if (own.fit) chart.lines.push_back(std::move(curve));
    chart.legend.push_back({own.optimizer, colour, LineChart::Style::kCircles});
  }
  std::ranges::sort(chart.x_marks);
  return chart.draw();
}

int run_batches(BatchFlags& flags) {
  ConfigSources sources{.environment = process_environment(), .command_line = flags.settings};
  if (!flags.config.empty()) sources.file = read_config_file(flags.config);
  const ResolvedConfig base = resolve_config(sources);
  if (flags.optimizers.empty()) flags.optimizers = {base.config.optim.kind};
  for (const std::string& text : flags.optimizers)
    flags.grid.optimizers.push_back(bench::parse_optimizer(text, base.config.optim));
  const OpenedData data = open_run_data(base.config, default_text());
  const std::vector<GridCell> cells = bench::grid_cells(flags.grid, base.config, data.train->size());
  fmt::print("{}: {} runs of {:g} epochs over {} samples, in {}\n", base.config.model.family, cells.size(),
             flags.grid.epochs, data.train->size(), flags.runs);
  if (flags.list) {
    for (const GridCell& cell : cells) fmt::print("  {:<32} {:>7} steps\n", cell.name(), cell.steps);
    return kOk;
  }
  std::vector<CellResult> results;
  for (const GridCell& cell : cells) {
    const std::string folder = std::filesystem::path(flags.runs) / cell.name();
    auto [result, source] = bench::cell_result(flags.grid, base, cell, data, folder);
    fmt::print("  {:<32} {}\n", cell.name(), source == CellSource::kRead ? "was trained before" : "trained");
    std::fflush(stdout);
    results.push_back(std::move(result));
  }
  const double target = flags.target ? *flags.target : bench::common_target(results).value_or(std::nan(""));
  const bool accuracy = std::ranges::any_of(
      results, [](const CellResult& result) { return result.held_out.accuracy.has_value(); });
  fmt::print("\n");
  print_cell_head(accuracy, target);
  for (const CellResult& result : results) print_cell(result, accuracy, target);
  const std::vector<StepsByBatch> fits = bench::steps_by_batch(results, target);
  for (const StepsByBatch& own : fits) print_fit(own);
  if (!flags.json.empty()) write_json(flags.json, results_json(results, target, fits));
  if (!flags.svg.empty()) write_file(flags.svg, steps_picture(fits, target), "picture");
  return kOk;
}

}  // namespace

int bench_batches(std::span<const std::string> arguments) {
  const SplitArguments split = split_settings(arguments);
  BatchFlags flags;
  flags.settings = split.settings;
  BatchGrid& grid = flags.grid;
  grid.look.samples = 1024;
  CLI::App app(
      "Trains a model at equal epochs with several batches, rules for the learning rate, warm-ups and "
      "optimizers: losses, generalisation gap,\n"
      "sharpness, steps to a loss and the critical batch. Runs that are finished are not trained again.",
      "trireme bench batches");
  app.add_option("config", flags.config, "a TOML file; without one, the defaults of `trireme train`");
  app.add_option("--runs", flags.runs, "the folder that the runs are in")->required()->type_name("DIR");
  app.add_option("--batches", grid.batches, "samples of a step, e.g. 16,64,256")->required()->delimiter(',');
  app.add_option("--rules", grid.rules, "how the rate grows with the batch, of none, linear, sqrt")
      ->delimiter(',')
      ->check(CLI::IsMember({"none", "linear", "sqrt"}))
      ->capture_default_str();
  app.add_option("--warmups", grid.warmups, "shares of a run that warm-up takes")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--optimizers", flags.optimizers,
                 "with their learning rates at the base batch, e.g. sgd=0.1,lars=2; default: optim.kind and "
                 "optim.lr")
      ->delimiter(',');
  app.add_option("--epochs", grid.epochs, "of each run")->capture_default_str();
  app.add_option("--evaluations", grid.evaluations, "on held-out data, spread over a run")
      ->capture_default_str();
  app.add_option("--samples", grid.look.samples, "of the data that losses and curvatures are of")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_option("--rows", grid.look.rows, "of a batch of them for the curvature")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  app.add_option("--target", flags.target,
                 "the held-out loss that steps are counted to; default: the lowest that every batch reached");
  app.add_flag("--list", flags.list, "print the runs, and train none");
  app.add_option("--json", flags.json, "write the results to this file")->type_name("FILE");
  app.add_option("--svg", flags.svg, "draw the steps to the target by batch")->type_name("FILE");
  if (const auto code = parse_arguments(app, split)) return *code;
  return run_batches(flags);
}

}  // namespace trireme::cli
