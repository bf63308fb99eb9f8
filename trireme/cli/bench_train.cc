// `trireme bench train`: whole steps of a config on random data (bench/train_steps.h), for people and as
// JSON.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/machine.h"
#include "trireme/base/text.h"
#include "trireme/bench/train_steps.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/launch_flags.h"
#include "trireme/cli/write_file.h"
#include "trireme/comm/context.h"
#include "trireme/kernels/kernel.h"
#include "trireme/run/config.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/axis_algorithms.h"

namespace trireme::cli {
namespace {

struct TrainBenchOptions {
  bench::StepSource source;
  comm::LaunchOptions launch;
  std::string plan = "data";
  bench::StepQuestion question;
  std::string json;
};

nlohmann::ordered_json profile_json(const std::vector<bench::ProfileRow>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const bench::ProfileRow& row : rows) {
    list.push_back({{"op", row.op},
                    {"shape", row.shape},
                    {"calls", row.calls},
                    {"seconds", row.seconds},
                    {"flops_per_second", row.cost.flops / row.seconds},
                    {"bytes_per_second", row.cost.bytes / row.seconds},
                    {"ceiling_fraction", row.ceiling_seconds / row.seconds}});
  }
  return list;
}

void print_report(const bench::StepReport& report, const bench::StepSetup& setup,
                  const TrainBenchOptions& options) {
  const auto line = [](std::string_view name, const std::string& value) {
    fmt::print("  {:<22} {}\n", name, value);
  };
  line(fmt::format("{}/s", setup.unit()), fmt::format("{:.0f}", report.units_per_second));
  line("step", fmt::format("{:.1f} ms (median of {}; p90 {:.1f} ms)", report.median_seconds * 1e3,
                           options.question.steps, report.p90_seconds * 1e3));
  if (report.ranks > 1) {
    line("exposed communication",
         fmt::format("{:.1f} ms, {:.2f}% of the step; {:.1f} ms on the rank that waits most for slower ones",
                     report.exposed_seconds * 1e3, 100 * report.exposed_seconds / report.median_seconds,
                     report.waiting_seconds * 1e3));
  }
  if (report.file_bytes > 0) {
    line("offload",
         fmt::format("{} a step in {:.1f} ms of reading and writing, {:.0f}% of it hidden",
                     format_bytes(static_cast<size_t>(report.file_bytes)), report.file_seconds * 1e3,
                     100 * std::max(0.0, 1 - report.file_waited_seconds / report.file_seconds)));
  }
  line("model FLOPs",
       fmt::format("{:.1f} GFLOP a step, {:.1f} GFLOP/s, MFU {:.1f}%", report.model_flops / 1e9,
                   report.model_flops_per_second() / 1e9, 100 * report.utilisation()));
  line(fmt::format("{} peak{}", report.device == "cpu" ? "f32" : setup.config.train.precision,
                   options.question.peak_flops_per_second > 0 ? "" : ", measured"),
       fmt::format("{:.1f} GFLOP/s", report.peak_flops_per_second / 1e9));
  line("memory, planned", format_bytes(report.planned_bytes));
  line("memory, resident", format_bytes(report.resident_bytes));
  line("loss", fmt::format("{:.4f} to {:.4f} in {} steps on one batch", report.first_loss, report.last_loss,
                           options.question.warmup + options.question.steps));
}

nlohmann::ordered_json report_json(const bench::StepReport& report, const bench::StepSetup& setup,
                                   const TrainBenchOptions& options) {
  return {
      {"benchmark", "train"},
      {"config", setup.name},
      {"family", setup.config.model.family},
      {"parameters", report.parameters},
      {"batch", setup.config.train.batch},
      {"precision", setup.config.train.precision},
      {"device", report.device},
      {"threads", report.threads},
      {"ranks", report.ranks},
      {"plan", report.ranks > 1 ? options.plan : ""},
      {"exposed_communication_seconds", report.exposed_seconds},
      {"waiting_seconds", report.waiting_seconds},
      {"file_bytes", report.file_bytes},
      {"file_seconds", report.file_seconds},
      {"file_waited_seconds", report.file_waited_seconds},
      {"cpu", cpu_model()},
      {"simd", simd_target()},
      {"steps", options.question.steps},
      {"median_seconds", report.median_seconds},
      {"p90_seconds", report.p90_seconds},
      {fmt::format("{}_per_second", setup.unit()), report.units_per_second},
      {"model_flops_per_step", report.model_flops},
      {"model_flops_per_second", report.model_flops_per_second()},
      {"peak_flops_per_second", report.peak_flops_per_second},
      {"model_flops_utilisation", report.utilisation()},
      {"planned_peak_bytes", report.planned_bytes},
      {"resident_bytes", report.resident_bytes},
      {"first_loss", report.first_loss},
      {"last_loss", report.last_loss},
  };
}

int run(const TrainBenchOptions& options, const bench::StepSetup& setup, const bench::StepRank& rank) {
  const bench::StepReport report =
      bench::time_steps(setup, options.question, rank, [&](const bench::StepReport& begun) {
        if (!rank.leads()) return;
        fmt::print("{}: {}, {:.1f}M parameters, batch {} of {}, {}, {}{}, {} ({})\n", setup.name,
                   setup.config.model.family, static_cast<double>(begun.parameters) / 1e6,
                   setup.config.train.batch, to_string(setup.shape.sample), setup.config.train.precision,
                   begun.ranks > 1 ? fmt::format("plan {} on {} ranks of ", options.plan, begun.ranks) : "",
                   begun.device_description, cpu_model(), simd_target());
        std::fflush(stdout);
      });
  if (!rank.leads()) return kOk;
  print_report(report, setup, options);
  nlohmann::ordered_json result = report_json(report, setup, options);
  if (options.question.profile) {
    fmt::print("\nProfile of a step, node by node, medians of {}:\n\n{}", options.question.steps,
               bench::profile_table(report.profile));
    result["profile"] = profile_json(report.profile);
  }
  if (!options.json.empty()) write_json(options.json, nlohmann::ordered_json::array({result}));
  return kOk;
}

int run_launched(TrainBenchOptions options) {
  const comm::LaunchEnvironment environment = comm::detect(comm::process_variables(), options.launch);
  // A mistake is reported once, before any rank is started.
  const Plan plan = read_plan(options.plan, environment.ranks);
  const bench::StepSetup setup = bench::set_up_step(options.source, plan);
  take_device_links(options.launch, setup.config.train.device == "cuda" && cuda_device_count() == 1);
  check_links(setup.config.train.device, options.launch.device_links);
  check_links(plan, setup.config.train, options.launch.device_links);
  if (environment.ranks == 1 && !environment.starts_ranks) return run(options, setup, {{plan}, nullptr});
  const AxisAlgorithms algorithms = axis_algorithms(plan, setup.config.train);
  return comm::run_launched(options.launch, [&](comm::Context& context) {
    MeshCommunicator communicator(plan.mesh, context, algorithms);
    return run(options, setup, {{plan, context.rank(), &communicator}, &context});
  });
}

}  // namespace

int bench_train(std::span<const std::string> arguments) {
  SplitArguments split = split_settings(arguments);
  TrainBenchOptions options;
  options.source.settings = split.settings;
  options.source.preset = bench::usual_preset(split.settings);
  CLI::App app("Times training steps on random data: tokens or samples a second, use of the machine, memory.",
               "trireme bench train");
  app.add_option("config", options.source.config_path, "a TOML file; without one, the preset");
  app.add_option("--preset", options.source.preset,
                 fmt::format("{}; default gpt, or the defaults of --model.family where that is given",
                             join(bench::preset_names(), ", ")));
  app.add_option("--image", options.source.image, "size of random images, like 3x32x32");
  add_launch_flags(app, options.launch);
  app.add_option("--plan", options.plan,
                 "how the step is spread over the ranks: a plan file, a plan in JSON, or a preset")
      ->capture_default_str();
  app.add_option_function<std::string>(
      "--device",
      [&](const std::string& device) { options.source.settings.push_back("train.device=" + device); },
      "where to compute, like --train.device");
  std::string tuned;
  CLI::Option* read = app.add_option("--products", options.question.products.path,
                                     "algorithms for matrix products on a GPU: a file from --tune");
  CLI::Option* tune =
      app.add_option(
             "--tune", tuned,
             "time algorithms for the products that FILE does not list yet, and add the fastest to FILE")
          ->type_name("FILE")
          ->excludes(read);
  app.add_option("--steps", options.question.steps, "number of timed steps; default 10")
      ->check(CLI::PositiveNumber);
  app.add_option("--warmup", options.question.warmup, "warm-up steps before timing starts; default 3")
      ->check(CLI::NonNegativeNumber);
  app.add_option(
         "--peak", options.question.peak_flops_per_second,
         "peak FLOPs per second of a rank, if you know them; otherwise they are measured, which may take "
         "longer than the benchmark")
      ->check(CLI::PositiveNumber);
  app.add_option("--json", options.json, "write the results to this file");
  bool profile = false, by_shape = false;
  app.add_flag("--profile", profile, "show where the time goes, by op");
  app.add_flag("--by-shape", by_shape, "the profile by op and shape");
  if (const auto code = parse_arguments(app, split, "\n" + config_help())) return *code;
  if (profile || by_shape)
    options.question.profile = by_shape ? bench::ProfileBy::kShape : bench::ProfileBy::kOp;
  if (*tune) {
    // Ranks that time at once would come to different ends.
    if (options.launch.ranks > 1)
      throw_error("--tune is for one rank; -n {} was given", options.launch.ranks);
    options.question.products = {tuned, ProductFile::Use::kTime};
  }
  return run_launched(options);
}

}  // namespace trireme::cli
