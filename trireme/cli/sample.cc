// `trireme sample RUN --prompt "…"`: text from a checkpoint of a run, or from a Hugging Face folder.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/launch_flags.h"
#include "trireme/cli/step_flags.h"
#include "trireme/comm/context.h"
#include "trireme/data/tokenizer.h"
#include "trireme/run/agreement.h"
#include "trireme/run/sampler.h"
#include "trireme/run/trained_model.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/axis_algorithms.h"
#include "trireme/train/rank_states.h"

namespace trireme::cli {
namespace {

struct SampleFlags {
  std::string run, plan;  // "": the axis tensor, by the preset megatron
  WeightsChoice choice;
  std::vector<std::string> settings;
  std::string prompt = "\n";
  std::string device;  // "": that of the run
  SampleOptions options;
};

// On this rank, of all of which one prints.
void print_sample(const SampleFlags& arguments, const TrainedModel& trained, const RankOptions& ranks,
                  int ranks_here, int rank_here) {
  const Config& config = trained.config.config;
  const bool prints = ranks.rank == 0;
  if (prints) {
    for (const std::string& message : trained.messages) fmt::print(stderr, "{}\n", message);
  }
  const std::shared_ptr<const Tokenizer> tokenizer =
      open_tokenizer(config.data.tokenizer, config.data.tokenizer_path);
  const int threads = static_cast<int>(std::thread::hardware_concurrency()) / ranks_here;
  const std::unique_ptr<Device> device =
      make_device({.kind = arguments.device.empty() ? config.train.device : arguments.device,
                   .threads = std::max(1, threads),
                   .rank_here = rank_here});
  Sampler sampler(trained.model, *device, ranks);
  read_trained_weights(trained, trained.model, sampler.weights(), checkpoint_peers(ranks));
  std::vector<int32_t> drawn;
  int64_t written = 0;
  const auto begin = std::chrono::steady_clock::now();
  sampler.generate(tokenizer->encode(arguments.prompt), arguments.options, [&](int32_t token) {
    ++written;
    if (token < tokenizer->vocab_size()) drawn.push_back(token);
  });
  const double seconds = seconds_since(begin);
  if (!prints) return;
  const bool translates = trained.model.record.input == InputKind::kPairs;
  fmt::print("{}{}\n", translates ? "" : arguments.prompt, printable(tokenizer->decode(drawn)));
  // Beside the text, which scripts may want alone.
  std::fflush(stdout);
  fmt::print(stderr, "{} tokens in {:.2f} s: {:.1f} tokens/s\n", written, seconds,
             static_cast<double>(written) / seconds);
}

TrainedModel open_language_model(const SampleFlags& arguments) {
  TrainedModel trained = open_trained_model(arguments.run, arguments.choice, arguments.settings);
  const std::string& family = trained.config.config.model.family;
  if (!reads_text(trained.model.record)) throw_error("model.family = {} does not generate text", family);
  if (trained.model.record.targets == Targets::kMasked)
    throw_error("model.family = {} finds tokens that are hidden, and does not write text", family);
  require_tokenizer(trained);
  return trained;
}

}  // namespace

int sample(std::span<const std::string> given) {
  CLI::App app(
      "Generates text from a checkpoint of a run, or from a Hugging Face folder (GPT-2, Llama) with its "
      "tokenizer.json.\nSettings (--model.seq=256, --data.tokenizer=…) override those of the folder.",
      "trireme sample");
  const SplitArguments split = split_settings(given);
  SampleFlags arguments;
  arguments.settings = split.settings;
  bool no_cache = false;
  comm::LaunchOptions launch;
  app.add_option("run", arguments.run, "the run's folder, or a Hugging Face folder")->required();
  add_weights_flags(app, arguments.choice);
  app.add_option("--prompt", arguments.prompt, "text to continue; of seq2seq the source");
  app.add_option("--tokens", arguments.options.tokens, "how many tokens to generate");
  app.add_option("--temperature", arguments.options.temperature, "0: the likeliest token each time");
  app.add_option("--top-k", arguments.options.top_k, "sample from this many most likely tokens; 0: from all");
  app.add_option(
      "--top-p", arguments.options.top_p,
      "sample from the fewest likeliest tokens that have this share of the probability; 1: from all");
  app.add_option("--seed", arguments.options.seed, "seed of the random draws");
  app.add_option("--device", arguments.device, "where to compute; default: where the run did");
  app.add_flag("--no-cache", no_cache, "recompute all keys and values for each token: the same text, slower");
  add_launch_flags(app, launch);
  app.add_option("--plan", arguments.plan,
                 "how the ranks of -n share the model; default: by the preset megatron along the axis tensor")
      ->type_name("PLAN");
  if (const auto code = parse_arguments(app, split.own)) return *code;
  if (no_cache) arguments.options.cache = SampleOptions::Cache::kNone;
  const TrainedModel trained = open_language_model(arguments);
  const comm::LaunchEnvironment environment = comm::detect(comm::process_variables(), launch);
  if (environment.ranks == 1 && !environment.starts_ranks) {
    print_sample(arguments, trained, {arguments.plan.empty() ? Plan() : read_plan(arguments.plan, 1)}, 1, 0);
    return kOk;
  }
  const auto plan_for = [&](int ranks) {
    const std::string usual = fmt::format(R"({{"mesh": "tensor:{}", "preset": "megatron"}})", ranks);
    return read_plan(arguments.plan.empty() ? usual : arguments.plan, ranks);
  };
  plan_for(environment.ranks);  // or an Error, told once
  return comm::run_launched(launch, [&](comm::Context& context) {
    comm::Group world = context.world();
    const Plan plan = plan_for(context.ranks());
    Facts facts = facts_of(trained.config, plan);
    const SampleOptions& options = arguments.options;
    facts.push_back(
        {"what is sampled",
         fmt::format("{} tokens after '{}', temperature {}, top-k {}, top-p {}, seed {}", options.tokens,
                     arguments.prompt, options.temperature, options.top_k, options.top_p, options.seed)});
    require_agreement(facts, world);
    MeshCommunicator communicator(plan.mesh, context, axis_algorithms(plan, trained.config.config.train));
    const std::vector<int>& hosts = context.hosts();
    const int here = static_cast<int>(std::ranges::count(hosts, hosts[context.rank()]));
    print_sample(arguments, trained, {plan, context.rank(), &communicator}, here, context.rank_here());
    return static_cast<int>(kOk);
  });
}

}  // namespace trireme::cli
