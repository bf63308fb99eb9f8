// `trireme sample RUN --prompt "…"`: text from a checkpoint of a run, or from a Hugging Face folder.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <thread>
#include <vector>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/step_flags.h"
#include "trireme/data/tokenizer.h"
#include "trireme/run/sampler.h"
#include "trireme/run/trained_model.h"

namespace trireme::cli {
namespace {

struct SampleFlags {
  std::string run;
  WeightsChoice choice;
  std::vector<std::string> settings;
  std::string prompt = "\n";
  std::string device;  // "": that of the run
  SampleOptions options;
};

void print_sample(const SampleFlags& arguments) {
  const TrainedModel trained = open_trained_model(arguments.run, arguments.choice, arguments.settings);
  const Config& config = trained.config.config;
  if (trained.model.record.input != InputKind::kTokens)
    throw_error("model.family = {} does not generate text", config.model.family);
  if (trained.model.record.targets == Targets::kMasked)
    throw_error("model.family = {} finds tokens that are hidden, and does not write text",
                config.model.family);
  for (const std::string& message : trained.messages) fmt::print(stderr, "{}\n", message);
  require_tokenizer(trained);

  const std::shared_ptr<const Tokenizer> tokenizer =
      open_tokenizer(config.data.tokenizer, config.data.tokenizer_path);
  const std::unique_ptr<Device> device =
      make_device({.kind = arguments.device.empty() ? config.train.device : arguments.device,
                   .threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()))});
  Sampler sampler(trained.model, *device);
  read_trained_weights(trained, trained.model, sampler.weights());
  std::vector<int32_t> drawn;
  const auto begin = std::chrono::steady_clock::now();
  sampler.generate(tokenizer->encode(arguments.prompt), arguments.options, [&](int32_t token) {
    if (token < tokenizer->vocab_size()) drawn.push_back(token);
  });
  const double seconds = seconds_since(begin);
  fmt::print("{}{}\n", arguments.prompt, printable(tokenizer->decode(drawn)));
  // Beside the text, which scripts may want alone.
  std::fflush(stdout);
  fmt::print(stderr, "{} tokens in {:.2f} s: {:.1f} tokens/s\n", arguments.options.tokens, seconds,
             static_cast<double>(arguments.options.tokens) / seconds);
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
  app.add_option("run", arguments.run, "the run's folder, or a Hugging Face folder")->required();
  add_checkpoint_flag(app, arguments.choice.checkpoint);
  app.add_option("--prompt", arguments.prompt, "text to continue");
  app.add_option("--tokens", arguments.options.tokens, "how many tokens to generate");
  app.add_option("--temperature", arguments.options.temperature, "0: the likeliest token each time");
  app.add_option("--top-k", arguments.options.top_k, "sample from this many most likely tokens; 0: from all");
  app.add_option(
      "--top-p", arguments.options.top_p,
      "sample from the fewest likeliest tokens that have this share of the probability; 1: from all");
  app.add_option("--seed", arguments.options.seed, "seed of the random draws");
  app.add_option("--device", arguments.device, "where to compute; default: where the run did");
  app.add_flag_callback(
      "--ema", [&] { arguments.choice.used = UsedWeights::kAverages; },
      "with the averages of the weights (train.ema)");
  app.add_flag("--no-cache", no_cache, "recompute all keys and values for each token: the same text, slower");
  if (const auto code = parse_arguments(app, split.own)) return *code;
  if (no_cache) arguments.options.cache = SampleOptions::Cache::kNone;
  print_sample(arguments);
  return kOk;
}

}  // namespace trireme::cli
