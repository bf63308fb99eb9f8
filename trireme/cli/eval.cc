// `trireme eval RUN [--checkpoint STEP|best] [--predictions FILE] [--json FILE] [-n RANKS] [--plan PLAN]
// [--section.key=value…]`: a trained model on held-out data.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/launch_flags.h"
#include "trireme/cli/step_flags.h"
#include "trireme/cli/write_file.h"
#include "trireme/comm/context.h"
#include "trireme/run/agreement.h"
#include "trireme/run/evaluate.h"
#include "trireme/run/plan_settings.h"
#include "trireme/run/run_setup.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/axis_algorithms.h"

namespace trireme::cli {
namespace {

struct EvalFlags {
  std::string path, plan = "data", predictions, json;
  WeightsChoice choice;
  EvaluateOptions options;
  std::vector<std::string> settings;
};

std::string class_name(const OpenedData& data, int64_t number) {
  return number < std::ssize(data.classes) ? data.classes[static_cast<size_t>(number)]
                                           : fmt::format("class {}", number);
}

std::string json_line(const nlohmann::ordered_json& line) {
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

// One object a line, in the order of the files or of the images in them.
std::string prediction_lines(std::vector<Prediction> predictions, const OpenedData& data) {
  std::ranges::sort(predictions, {}, [](const Prediction& one) { return one.sample.number; });
  std::string text;
  for (const Prediction& one : predictions) {
    nlohmann::ordered_json line{{"index", one.sample.number}};
    if (!one.sample.file.empty()) line["file"] = one.sample.file;
    line["label"] = class_name(data, one.label);
    line["predicted"] = class_name(data, one.predicted);
    line["probability"] = one.probability;
    text += json_line(line);
  }
  return text;
}

std::string translation_line(const Translation& one) {
  return json_line({{"line", one.line},
                    {"source", one.source},
                    {"target", one.target},
                    {"predicted", one.predicted},
                    {"exact", one.exact()}});
}

nlohmann::ordered_json report_json(const TrainedModel& model, const OpenedData& data,
                                   const EvaluationReport& report) {
  nlohmann::ordered_json object{{"weights", model.weights},
                                {"family", model.model.record.family},
                                {"data", data.summary},
                                {"loss", report.loss}};
  if (report.perplexity) object["perplexity"] = *report.perplexity;
  if (report.accuracy) object["accuracy"] = *report.accuracy;
  if (report.exact) object["exact"] = *report.exact;
  object["targets"] = report.targets;
  object["samples"] = report.samples;
  return object;
}

void print_report(const TrainedModel& model, const OpenedData& data, const EvaluationReport& report) {
  fmt::print("model    {} of {}\n", model.model.record.family, model.weights);
  fmt::print("data     {}\n", data.summary);
  fmt::print("loss     {:.4f}", report.loss);
  if (report.perplexity) fmt::print("  perplexity {:.3f}", *report.perplexity);
  if (report.accuracy) fmt::print("  accuracy {:.2f}%", 100 * *report.accuracy);
  if (report.exact) fmt::print("  exact {:.2f}%", 100 * *report.exact);
  fmt::print("  ({} targets, {} samples)\n", report.targets, report.samples);
}

// On this rank, of all of which one reports.
void evaluate_here(const EvalFlags& arguments, TrainedModel model, const RankOptions& ranks, int ranks_here,
                   int rank_here, comm::Group* world) {
  apply_plan(ranks.plan, model.config);
  const OpenedData data = open_evaluation_data(model, default_text());
  if (world) {
    Facts facts = facts_of(model.config, ranks.plan);
    for (Fact& fact : facts_of(data)) facts.push_back(std::move(fact));
    require_agreement(facts, *world);
  }
  const TrainOptions& train = model.config.config.train;
  const std::unique_ptr<Device> device = make_device({.kind = train.device,
                                                      .threads = thread_count(train, ranks_here),
                                                      .rank_here = rank_here,
                                                      .f32_products = f32_products_of(train)});
  std::vector<Prediction> predictions;
  std::string lines;
  EvaluateOptions options = arguments.options;
  const bool pairs = model.model.record.input == InputKind::kPairs;
  if (!arguments.predictions.empty() && pairs)
    options.on_translation = [&](const Translation& one) { lines += translation_line(one); };
  else if (!arguments.predictions.empty())
    options.on_prediction = [&](const Prediction& one) { predictions.push_back(one); };
  const EvaluationReport report = evaluate_model(model, data, *device, ranks, options);
  if (ranks.rank != 0) return;
  for (const std::string& message : model.messages) fmt::print(stderr, "{}\n", message);
  if (!arguments.predictions.empty())
    write_file(arguments.predictions, pairs ? lines : prediction_lines(std::move(predictions), data),
               "predictions");
  print_report(model, data, report);
  if (!arguments.json.empty()) write_json(arguments.json, report_json(model, data, report));
}

}  // namespace

int eval(std::span<const std::string> given) {
  const SplitArguments split = split_settings(given);
  CLI::App app(
      "Evaluates a checkpoint of a run on its held-out data, or on other data: --data.path=… (all of it, "
      "or the held-out part that it\n"
      "brings; with --data.validation_fraction that share of it). RUN may also be a Hugging Face folder "
      "(GPT-2, Llama).\n"
      "Settings (--train.batch=64, --train.device=cuda) override those of the run.",
      "trireme eval");
  EvalFlags arguments;
  arguments.settings = split.settings;
  comm::LaunchOptions launch;
  app.add_option("run", arguments.path, "the run's folder, or a Hugging Face folder")->required();
  add_weights_flags(app, arguments.choice);
  app.add_option("--batches", arguments.options.batches, "evaluate only this many batches; default: all")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_option("--predictions", arguments.predictions,
                 "write what an image classifier, or seq2seq, says of each sample, one JSON object per line")
      ->type_name("FILE");
  app.add_option("--json", arguments.json, "write the result as a JSON object")->type_name("FILE");
  add_launch_flags(app, launch);
  app.add_option("--plan", arguments.plan, "how the model is spread over the ranks of -n")
      ->capture_default_str();
  if (const auto code = parse_arguments(app, split.own)) return *code;

  const TrainedModel model = open_trained_model(arguments.path, arguments.choice, arguments.settings);
  const comm::LaunchEnvironment environment = comm::detect(comm::process_variables(), launch);
  if (environment.ranks == 1 && !environment.starts_ranks) {
    const Plan plan = app.count("--plan") > 0 ? read_plan(arguments.plan, 1) : Plan();
    evaluate_here(arguments, model, {plan}, 1, 0, nullptr);
    return kOk;
  }
  if (!arguments.predictions.empty())
    throw_error("--predictions come from one rank, and there are {}; leave out -n", environment.ranks);
  read_plan(arguments.plan, environment.ranks);  // or an Error, told once
  return comm::run_launched(launch, [&](comm::Context& context) {
    comm::Group world = context.world();
    const Plan plan = read_plan(arguments.plan, context.ranks());
    MeshCommunicator communicator(plan.mesh, context, axis_algorithms(plan, model.config.config.train));
    const std::vector<int>& hosts = context.hosts();
    const int here = static_cast<int>(std::ranges::count(hosts, hosts[context.rank()]));
    evaluate_here(arguments, model, {plan, context.rank(), &communicator}, here, context.rank_here(), &world);
    return static_cast<int>(kOk);
  });
}

}  // namespace trireme::cli
