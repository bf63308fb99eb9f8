// `trireme bench train`: times whole steps of a config on random data, all of which must keep loss and
// gradient finite; says what fraction of the machine's arithmetic the model's own work makes up.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/bench_commands.h"
#include "trireme/cli/ceilings.h"
#include "trireme/cli/launch_flags.h"
#include "trireme/cli/machine.h"
#include "trireme/cli/profile.h"
#include "trireme/cli/statistics.h"
#include "trireme/cli/step_setup.h"
#include "trireme/cli/write_json.h"
#include "trireme/comm/context.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/config.h"
#include "trireme/train/plan_settings.h"
#include "trireme/train/trainer.h"

namespace trireme::cli {
namespace {

struct Options {
  StepSource source;
  comm::LaunchOptions launch;
  std::string plan = "data";
  int steps = 10;
  int warmup = 3;
  std::string json;
  bool profile = false;
  bool by_shape = false;
  ProductFile products;
};

struct Timing {
  std::vector<double> step_seconds;
  // Of each step, the time in collectives: of the rank that spends least, which waits for nobody, and of the
  // one that spends most, which waits for slower ranks.
  std::vector<double> exposed_seconds, waiting_seconds;
  double first_loss = 0, last_loss = 0;
  size_t resident_bytes = 0;  // before anything else was measured
};

// Which rank this is; the communicator and the context are null where there is one alone.
struct Rank {
  RankOptions options;
  comm::Context* context = nullptr;

  int ranks() const { return options.plan.mesh.ranks(); }
  bool leads() const { return options.rank == 0; }
};

Timing time_steps(Trainer& trainer, const StepSetup& setup, const Options& options, const Rank& rank) {
  using Clock = std::chrono::steady_clock;
  Timing timing;
  Batch batch = random_batch(setup, setup.config.train.seed);
  for (int step = 0; step < options.warmup + options.steps; ++step) {
    const Clock::time_point begin = Clock::now();
    const bool last = step + 1 == options.warmup + options.steps;
    const StepResult result = trainer.step(batch, step, setup.config.optim.lr, last ? nullptr : &batch);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (!std::isfinite(result.norm)) throw_error("the gradient is not finite at step {}", step + 1);
    if (step == 0) timing.first_loss = result.loss;
    timing.last_loss = result.loss;
    const double exposed = rank.options.communicator ? rank.options.communicator->take_seconds() : 0;
    if (step < options.warmup) continue;
    timing.step_seconds.push_back(seconds);
    timing.exposed_seconds.push_back(exposed);
  }
  timing.waiting_seconds = timing.exposed_seconds;
  if (rank.context) {
    comm::Group world = rank.context->world();
    world.all_reduce(timing.exposed_seconds.data(), options.steps, DType::f64, comm::ReduceOp::min).wait();
    world.all_reduce(timing.waiting_seconds.data(), options.steps, DType::f64, comm::ReduceOp::max).wait();
  }
  timing.resident_bytes = peak_resident_bytes();
  return timing;
}

std::vector<ProfileRow> profile_steps(Trainer& trainer, const StepSetup& setup, const Options& options,
                                      Ceilings& ceilings) {
  Batch batch = random_batch(setup, setup.config.train.seed);
  Profile profile(options.by_shape ? ProfileBy::kShape : ProfileBy::kOp, ceilings, trainer.executor());
  for (int step = 0; step < options.steps; ++step) {
    trainer.step(batch, options.warmup + options.steps + step, setup.config.optim.lr);
    profile.end_step();
  }
  return profile.rows();
}

nlohmann::ordered_json profile_json(const std::vector<ProfileRow>& rows) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ProfileRow& row : rows) {
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

// All that is said about the steps, for people and for scripts.
struct Report {
  int64_t parameters = 0;
  int ranks = 1, threads = 0;  // threads of each
  std::string device;
  double exposed_seconds = 0, waiting_seconds = 0;
  double median_seconds = 0, p90_seconds = 0, units_per_second = 0;
  double model_flops = 0, peak_flops_per_second = 0;  // in one step; of all threads
  size_t planned_bytes = 0;

  double model_flops_per_second() const { return model_flops / median_seconds; }
  double utilisation() const { return model_flops_per_second() / peak_flops_per_second; }
};

void print_report(const Report& report, const StepSetup& setup, const Timing& timing,
                  const Options& options) {
  const auto line = [](std::string_view name, const std::string& value) {
    fmt::print("  {:<22} {}\n", name, value);
  };
  line(fmt::format("{}/s", setup.unit()), fmt::format("{:.0f}", report.units_per_second));
  line("step", fmt::format("{:.1f} ms (median of {}; p90 {:.1f} ms)", report.median_seconds * 1e3,
                           options.steps, report.p90_seconds * 1e3));
  if (report.ranks > 1) {
    line("exposed communication",
         fmt::format("{:.1f} ms, {:.2f}% of the step; {:.1f} ms on the rank that waits most for slower ones",
                     report.exposed_seconds * 1e3, 100 * report.exposed_seconds / report.median_seconds,
                     report.waiting_seconds * 1e3));
  }
  line("model FLOPs",
       fmt::format("{:.1f} GFLOP a step, {:.1f} GFLOP/s, MFU {:.1f}%", report.model_flops / 1e9,
                   report.model_flops_per_second() / 1e9, 100 * report.utilisation()));
  line(fmt::format("{} peak, measured", report.device == "cpu" ? "f32" : setup.config.train.precision),
       fmt::format("{:.1f} GFLOP/s", report.peak_flops_per_second / 1e9));
  line("memory, planned", format_bytes(report.planned_bytes));
  line("memory, resident", format_bytes(timing.resident_bytes));
  line("loss", fmt::format("{:.4f} to {:.4f} in {} steps on one batch", timing.first_loss, timing.last_loss,
                           options.warmup + options.steps));
}

nlohmann::ordered_json report_json(const Report& report, const StepSetup& setup, const Timing& timing,
                                   const Options& options) {
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
      {"cpu", cpu_model()},
      {"simd", simd_target()},
      {"steps", options.steps},
      {"median_seconds", report.median_seconds},
      {"p90_seconds", report.p90_seconds},
      {fmt::format("{}_per_second", setup.unit()), report.units_per_second},
      {"model_flops_per_step", report.model_flops},
      {"model_flops_per_second", report.model_flops_per_second()},
      {"peak_flops_per_second", report.peak_flops_per_second},
      {"model_flops_utilisation", report.utilisation()},
      {"planned_peak_bytes", report.planned_bytes},
      {"resident_bytes", timing.resident_bytes},
      {"first_loss", timing.first_loss},
      {"last_loss", timing.last_loss},
  };
}

int run(const Options& options, const StepSetup& setup, const Rank& rank) {
  Report report;
  report.ranks = rank.ranks();
  const long threads = setup.config.train.threads;
  report.threads = threads ? static_cast<int>(threads) : std::max(1, thread_count(0) / report.ranks);
  const std::unique_ptr<Device> device =
      make_device({.kind = setup.config.train.device,
                   .threads = report.threads,
                   .rank_here = rank.context ? rank.context->rank_here() : 0,
                   .products = options.products,
                   .f32_products = f32_products_of(setup.config.train)});
  Trainer trainer(setup.config.model, setup.config.train, setup.config.optim, setup.shape, *device,
                  rank.options);
  trainer.initialise(static_cast<uint64_t>(setup.config.train.seed));
  report.device = device->name();
  report.parameters = trainer.parameter_count();
  report.planned_bytes = trainer.program().peak_bytes();
  report.model_flops = model_flops(setup.config.model, trainer.program(), setup.config.train.batch,
                                   setup.config.train.accumulate);
  if (rank.leads()) {
    fmt::print("{}: {}, {:.1f}M parameters, batch {} of {}, {}, {}{}, {} ({})\n", setup.name,
               setup.config.model.family, static_cast<double>(report.parameters) / 1e6,
               setup.config.train.batch, to_string(setup.shape.sample), setup.config.train.precision,
               report.ranks > 1 ? fmt::format("plan {} on {} ranks of ", options.plan, report.ranks) : "",
               device->description(), cpu_model(), simd_target());
    std::fflush(stdout);
  }

  ThreadPool pool(report.threads);
  Ceilings ceilings =
      device->name() == "cpu" ? Ceilings(pool) : Ceilings(*device, precision_of(setup.config.train));
  const Timing timing = time_steps(trainer, setup, options, rank);
  ceilings.measure_again();
  report.peak_flops_per_second = ceilings.flops_per_second() * report.ranks;  // all measure at the same time
  report.median_seconds = median_of(timing.step_seconds);
  report.p90_seconds = quantile_of(timing.step_seconds, 0.9);
  report.exposed_seconds = median_of(timing.exposed_seconds);
  report.waiting_seconds = median_of(timing.waiting_seconds);
  report.units_per_second = static_cast<double>(setup.units_per_step()) / report.median_seconds;
  if (rank.leads()) print_report(report, setup, timing, options);

  nlohmann::ordered_json result = report_json(report, setup, timing, options);
  if (options.profile) {
    const std::vector<ProfileRow> rows = profile_steps(trainer, setup, options, ceilings);
    if (rank.leads())
      fmt::print("\nProfile of a step, node by node, medians of {}:\n\n{}", options.steps,
                 profile_table(rows));
    result["profile"] = profile_json(rows);
  }
  if (!options.json.empty() && rank.leads())
    write_json(options.json, nlohmann::ordered_json::array({result}));
  return kOk;
}

int run_launched(const Options& options) {
  const comm::LaunchEnvironment environment = comm::detect(comm::process_variables(), options.launch);
  // A mistake is told once, before any rank is started.
  const Plan plan = read_plan(options.plan, environment.ranks);
  const StepSetup setup = set_up_step(options.source, plan);
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
  Options options;
  options.source.settings = split.settings;
  options.source.preset = "gpt";
  CLI::App app("Times training steps on random data: tokens or samples a second, use of the machine, memory.",
               "trireme bench train");
  app.add_option("config", options.source.config_path, "a TOML file; without one, the preset");
  app.add_option("--preset", options.source.preset,
                 fmt::format("{}; default {}", join(preset_names(), ", "), options.source.preset));
  app.add_option("--image", options.source.image, "size of random images, like 3x32x32");
  add_launch_flags(app, options.launch);
  app.add_option("--plan", options.plan, "how it is spread over the ranks: a JSON file or a preset")
      ->capture_default_str();
  app.add_option_function<std::string>(
      "--device",
      [&](const std::string& device) { options.source.settings.push_back("train.device=" + device); },
      "where to compute, like --train.device");
  std::string tuned;
  CLI::Option* read = app.add_option("--products", options.products.path,
                                     "algorithms of a GPU's matrix products: a file that --tune has made");
  CLI::Option* tune =
      app.add_option("--tune", tuned,
                     "time the algorithms of those that FILE does not have yet, and keep them")
          ->type_name("FILE")
          ->excludes(read);
  app.add_option("--steps", options.steps, "steps that are timed; default 10")->check(CLI::PositiveNumber);
  app.add_option("--warmup", options.warmup, "steps before them; default 3")->check(CLI::NonNegativeNumber);
  app.add_option("--json", options.json, "write the results to this file");
  app.add_flag("--profile", options.profile, "show where the time goes, by op");
  app.add_flag("--by-shape", options.by_shape, "the profile by op and shape");
  if (const auto code = parse_arguments(app, split.own, "\n" + config_help())) return *code;
  options.profile = options.profile || options.by_shape;
  if (*tune) {
    // Ranks that time at once would come to different ends.
    if (options.launch.ranks > 1)
      throw_error("--tune is for one rank; -n {} was given", options.launch.ranks);
    options.products = {tuned, ProductFile::Use::kTime};
  }
  return run_launched(options);
}

}  // namespace trireme::cli
