// `trireme profile`: this machine as a cluster file, for `trireme simulate`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/machine.h"
#include "trireme/base/text.h"
#include "trireme/bench/local_cluster.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/launch_flags.h"
#include "trireme/cli/profile_inference.h"
#include "trireme/cli/write_file.h"
#include "trireme/mesh/cluster_file.h"
#include "trireme/train/trainer.h"

namespace trireme::cli {
namespace {

struct ProfileFlags {
  comm::LaunchOptions launch;
  bench::StepSource source;
  std::string device, dtype, path, shipped;
  int threads = 0;
  InferenceFlags inference;
};

int run(const ProfileFlags& options, comm::Context* context) {
  const int ranks = context ? context->ranks() : 1;
  const int threads = options.threads ? options.threads : std::max(1, thread_count(0) / ranks);
  const bench::StepSource& source = options.source;
  const bool of_model = !source.preset.empty() || !source.config_path.empty() || !source.settings.empty();
  std::optional<bench::StepSetup> step = of_model ? std::optional(bench::set_up_step(source)) : std::nullopt;
  TrainOptions train = step ? step->config.train : TrainOptions{.precision = "bf16"};
  if (!options.device.empty()) train.device = options.device;
  if (!options.dtype.empty()) train.precision = options.dtype;
  const std::optional<DType> dtype = parse_dtype(train.precision);
  if (!dtype || !is_float(*dtype)) throw_error("--dtype is '{}'; f32, bf16 or f16 expected", options.dtype);
  if (step) step->config.train = train;
  const std::unique_ptr<Device> device = make_device({.kind = train.device,
                                                      .threads = threads,
                                                      .rank_here = context ? context->rank_here() : 0,
                                                      .f32_products = f32_products_of(train)});
  const std::string text = to_toml(bench::measure_local_cluster(*device, *dtype, threads, context, step));
  if (context && context->rank() != 0) return kOk;
  if (options.path.empty()) {
    fmt::print("{}", text);
    return kOk;
  }
  write_file(options.path, text, "cluster");
  fmt::print("{} ranks of this machine, with {} threads each, written to {}\n", ranks, threads, options.path);
  return kOk;
}

}  // namespace

int profile(std::span<const std::string> arguments) {
  SplitArguments split = split_settings(arguments);
  ProfileFlags options;
  options.source.settings = split.settings;
  CLI::App app(
      "Measures this machine and writes it as a cluster file, for `trireme simulate --cluster`; or, with "
      "--inference, a trained run as a variant for `trireme place`.",
      "trireme profile");
  app.add_option("config", options.source.config_path,
                 "a TOML file: ops are then measured in steps of that model, too");
  app.add_option("--preset", options.source.preset,
                 fmt::format("the same, of one of {}", join(bench::preset_names(), ", ")));
  app.add_option("--image", options.source.image, "size of random images, like 3x32x32");
  add_launch_flags(app, options.launch);
  app.add_option("-o,--output", options.path, "write to this file; default: print it");
  app.add_option("--threads", options.threads, "threads of each rank; default: the cores, shared evenly")
      ->check(CLI::Range(0, 4096));
  app.add_option("--device", options.device, "cpu or cuda; default: the model's train.device, or cpu");
  app.add_option("--dtype", options.dtype,
                 "number format of products on a device other than the CPU; default: the model's "
                 "train.precision, or bf16");
  app.add_option("--show", options.shipped,
                 fmt::format("print a shipped cluster file instead of measuring: one of {}",
                             join(shipped_clusters(), ", ")));
  add_inference_flags(app, options.inference);
  if (const auto code = parse_arguments(app, split, "\n" + config_help())) return *code;
  if (!options.shipped.empty()) {
    const std::string text = shipped_cluster(options.shipped);
    if (text.empty())
      throw_error("no cluster '{}' comes with Trireme; {}", options.shipped,
                  suggestion(options.shipped, shipped_clusters()));
    fmt::print("{}", text);
    return kOk;
  }
  if (!options.inference.run.empty()) {
    const std::string text = profile_variant(options.inference);
    if (options.path.empty())
      fmt::print("{}", text);
    else
      write_file(options.path, text, "variant");
    return kOk;
  }
  const comm::LaunchEnvironment environment = comm::detect(comm::process_variables(), options.launch);
  if (environment.ranks == 1 && !environment.starts_ranks) return run(options, nullptr);
  return comm::run_launched(options.launch, [&](comm::Context& context) { return run(options, &context); });
}

}  // namespace trireme::cli
