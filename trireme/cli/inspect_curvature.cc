// `trireme inspect curvature RUN [RUN]`: how sharp the minimum is that a run has found, and the loss along
// the straight line between two of them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/line_chart.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/curve.h"
#include "trireme/cli/step_flags.h"
#include "trireme/cli/write_file.h"
#include "trireme/run/landscape.h"
#include "trireme/run/run_setup.h"

namespace trireme::cli {
namespace {

using Json = nlohmann::ordered_json;
using Losses = Landscape::Losses;

struct CurvatureFlags {
  std::vector<std::string> runs;
  WeightsChoice choice;
  LandscapeOptions options;
  std::string json, svg;
};

std::string_view samples_name(LandscapeOptions::Samples of) {
  return of == LandscapeOptions::Samples::kTraining ? "training" : "held_out";
}

Json losses_json(const Losses& losses) {
  Json object{{"loss", losses.loss}};
  if (losses.accuracy) object["accuracy"] = *losses.accuracy;
  return object;
}

Json landscape_json(const Landscape& landscape, const OpenedData& data, const CurvatureFlags& flags) {
  Json solutions = Json::array(), line = Json::array();
  for (const Landscape::Solution& one : landscape.solutions) {
    const Curvature& curvature = one.curvature;
    Json object{{"weights", one.weights},
                {"training", losses_json(one.training)},
                {"loss", one.loss},
                {"gradient_norm", one.gradient_norm},
                {"distance", one.distance},
                {"largest_eigenvalue", curvature.eigenvalue},
                {"residual", curvature.residual},
                {"converged", curvature.converged},
                {"step", curvature.step},
                {"step_error", curvature.step_error},
                {"iterations", curvature.iterations}};
    if (one.held_out) object["held_out"] = losses_json(*one.held_out);
    if (curvature.most_negative) object["most_negative_eigenvalue"] = *curvature.most_negative;
    solutions.push_back(std::move(object));
  }
  for (const Landscape::Point& point : landscape.line) {
    Json object{{"a", point.a}, {"training", losses_json(point.training)}};
    if (point.held_out) object["held_out"] = losses_json(*point.held_out);
    line.push_back(std::move(object));
  }
  return {{"parameters", landscape.parameters},
          {"data", data.summary},
          {"curvature_of", samples_name(flags.options.of)},
          {"samples", landscape.samples},
          {"rows", landscape.rows},
          {"solutions", std::move(solutions)},
          {"line", std::move(line)}};
}

std::string accuracy_text(const std::optional<double>& share) {
  return share ? fmt::format("{:.2f}%", 100 * *share) : "";
}

std::string evaluated_text(const Landscape::Solution& solution) {
  const auto text = [](const Losses& losses) {
    return fmt::format("{:.5g}{}{}", losses.loss, losses.accuracy ? ", " : "",
                       accuracy_text(losses.accuracy));
  };
  if (!solution.held_out) return fmt::format("training {}", text(solution.training));
  return fmt::format("training {}; held out {}; {:.4g} between them", text(solution.training),
                     text(*solution.held_out), solution.held_out->loss - solution.training.loss);
}

void print_solution(const Landscape::Solution& solution) {
  const Curvature& curvature = solution.curvature;
  const auto line = [](std::string_view what, const std::string& value) {
    fmt::print("  {:<20} {}\n", what, value);
  };
  fmt::print("\n{}\n", solution.weights);
  line("evaluated", evaluated_text(solution));
  line("loss", fmt::format("{:.6g}, its gradient {:.4g} long", solution.loss, solution.gradient_norm));
  line("largest eigenvalue",
       fmt::format("{:.6g}  (residual {:.2g} of it; {})", curvature.eigenvalue, curvature.residual,
                   curvature.converged ? "converged" : "NOT converged: give more --iterations"));
  if (curvature.most_negative) line("most negative", fmt::format("{:.6g}", *curvature.most_negative));
  line("step of gradients",
       curvature.step_error > 0
           ? fmt::format("{:.3g}, measured: steps four times as large and as small differ by up to {:.2g} %",
                         curvature.step, 100 * curvature.step_error)
           : fmt::format("{:.3g}", curvature.step));
  std::string values;
  constexpr size_t kRow = 8;
  for (size_t i = 0; i < curvature.iterations.size(); ++i)
    values += fmt::format("{}{:.5g}",
                          i == 0         ? ""
                          : i % kRow > 0 ? " "
                                         : "\n                       ",
                          curvature.iterations[i]);
  line(fmt::format("{} iterations", curvature.iterations.size()), values);
}

void print_line(const Landscape& landscape) {
  fmt::print(
      "\nalong the line between both, {:.4g} apart: 0 is the first, 1 the second\n  {:>6} {:>12} {:>9} {:>12} {:>9}\n",
      landscape.solutions[1].distance, "a", "training", "accuracy", "held out", "accuracy");
  std::vector<CurvePoint> training, held_out;
  for (const Landscape::Point& point : landscape.line) {
    const Losses other = point.held_out.value_or(Losses());
    fmt::print("  {:>6.2f} {:>12.5g} {:>9} {:>12} {:>9}\n", point.a, point.training.loss,
               accuracy_text(point.training.accuracy),
               point.held_out ? fmt::format("{:.5g}", other.loss) : "", accuracy_text(other.accuracy));
    training.push_back({point.a, point.training.loss});
    if (point.held_out) held_out.push_back({point.a, other.loss});
  }
  fmt::print("\nloss of training data (*){}\n{}", held_out.empty() ? "" : " and of held-out data (o)",
             draw_curve(training, held_out));
}

std::string loss_text(double loss) {
  return fmt::format("{:.3g}", loss);
}

std::string line_picture_of(const Landscape& landscape) {
  LineChart chart{
      .title = "Loss on the straight line between two solutions",
      .subtitle = fmt::format("0: {}; 1: {}", landscape.solutions[0].weights, landscape.solutions[1].weights),
      .x_label = "a, of w0 + a (w1 − w0)",
      .y_label = "loss",
      .y_text = loss_text};
  std::array<LineChart::Line, 2> lines;
  for (const Landscape::Point& point : landscape.line) {
    lines[0].points.push_back({point.a, point.training.loss});
    if (point.held_out) lines[1].points.push_back({point.a, point.held_out->loss});
    chart.x_marks.emplace_back(point.a, fmt::format("{:.2g}", point.a));
  }
  lines[0].colour = 1;
  lines[1].colour = 2;
  lines[1].style = LineChart::Style::kDashed;
  chart.legend = {{"training data", 1}, {"held-out data", 2, LineChart::Style::kDashed}};
  if (lines[1].points.empty()) chart.legend.pop_back();
  chart.lines.assign(lines.begin(), lines.begin() + static_cast<ptrdiff_t>(chart.legend.size()));
  return chart.draw();
}

int look(CurvatureFlags& flags, const std::vector<std::string>& settings) {
  if (!flags.svg.empty() && flags.runs.size() < 2)
    throw_error("--svg draws the loss between two runs, and one was given");
  std::vector<TrainedModel> models;
  for (const std::string& run : flags.runs) models.push_back(open_trained_model(run, flags.choice, settings));
  const OpenedData data = open_landscape_data(models[0], default_text());
  const TrainOptions& train = models[0].config.config.train;
  const std::unique_ptr<Device> device =
      make_device({.kind = train.device, .threads = thread_count(train, 1)});
  const Landscape landscape = landscape_of(models, data, *device, flags.options);
  for (const TrainedModel& model : models) {
    for (const std::string& message : model.messages) fmt::print(stderr, "{}\n", message);
  }
  fmt::print(
      "model   {}, {} trained parameters\ndata    {}\nhere    {} samples of {} data, in batches of {}\n",
      models[0].model.record.family, landscape.parameters, data.summary, landscape.samples,
      flags.options.of == LandscapeOptions::Samples::kTraining ? "training" : "held-out", landscape.rows);
  for (const Landscape::Solution& solution : landscape.solutions) print_solution(solution);
  if (!landscape.line.empty()) print_line(landscape);
  if (!flags.json.empty()) write_json(flags.json, landscape_json(landscape, data, flags));
  if (!flags.svg.empty()) write_file(flags.svg, line_picture_of(landscape), "picture");
  return kOk;
}

}  // namespace

int inspect_curvature(std::span<const std::string> arguments) {
  const SplitArguments split = split_settings(arguments);
  CLI::App app(
      "Shows how sharp the minimum is that a run has found: the largest eigenvalue of the Hessian of its loss. "
      "With two runs\n"
      "it also shows the loss along the straight line between both.",
      "trireme inspect curvature");
  CurvatureFlags flags;
  LandscapeOptions& options = flags.options;
  app.add_option("run", flags.runs, "the folders of one run or of two, of the same model")
      ->required()
      ->expected(1, 2);
  add_weights_flags(app, flags.choice);
  app.add_flag_callback(
      "--held-out", [&] { options.of = LandscapeOptions::Samples::kHeldOut; },
      "the curvature of the loss on held-out data; default: on training data");
  app.add_option("--samples", options.samples, "samples of the data that losses are of")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_option("--rows", options.rows, "of a batch of them, whatever the batch of the run was")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  app.add_option("--seed", options.seed, "draws the samples and the first direction")->capture_default_str();
  app.add_option("--iterations", options.curvature.most_iterations, "of the power iteration, at most")
      ->capture_default_str()
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("--tolerance", options.curvature.tolerance,
                 "it ends when the eigenvalue will change by less than this share, as the last changes tell")
      ->capture_default_str();
  app.add_option("--step", options.curvature.step,
                 "how far from the weights gradients are taken; default: measured");
  app.add_option("--points", options.points, "on the line between two runs")
      ->capture_default_str()
      ->check(CLI::Range(2, 10000));
  app.add_option("--from", options.from, "where the line begins; the first run is at 0")
      ->capture_default_str();
  app.add_option("--to", options.to, "where it ends; the second run is at 1")->capture_default_str();
  app.add_option("--json", flags.json, "write the result as a JSON object")->type_name("FILE");
  app.add_option("--svg", flags.svg, "draw the loss along the line")->type_name("FILE");
  if (const auto code = parse_arguments(app, split)) return *code;
  return look(flags, split.settings);
}

}  // namespace trireme::cli
