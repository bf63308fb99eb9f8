// `trireme sample RUN --prompt "…"`: text from the newest checkpoint of a run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/train/checkpoint/checkpoint.h"
#include "trireme/train/config.h"
#include "trireme/train/data/tokenizer.h"
#include "trireme/train/models/model.h"
#include "trireme/train/sampler.h"

namespace trireme::cli {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string run;
  std::string prompt = "\n";
  std::string device;  // "": that of the run
  SampleOptions options;
};

void print_sample(const Arguments& arguments) {
  const fs::path config_path = fs::path(arguments.run) / "config.toml";
  if (!fs::exists(config_path))
    throw_error("{} is no run folder: there is no config.toml in it", arguments.run);
  const Config config = resolve_config({.file = read_config_file(config_path.string())}).config;
  if (find_model(config.model.family).input != InputKind::kTokens)
    throw_error("model.family = {} does not generate text", config.model.family);
  std::optional<LoadedCheckpoint> checkpoint = Checkpoints(arguments.run, 1).load_latest();
  if (!checkpoint) throw_error("{} holds no checkpoint yet", arguments.run);
  for (const std::string& message : checkpoint->messages) fmt::print(stderr, "{}\n", message);

  const std::shared_ptr<const Tokenizer> tokenizer =
      open_tokenizer(config.data.tokenizer, config.data.tokenizer_path);
  ModelOptions model = config.model;
  if (model.vocab == 0) model.vocab = tokenizer->vocab_size();
  const std::unique_ptr<Device> device =
      make_device({.kind = arguments.device.empty() ? config.train.device : arguments.device,
                   .threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()))});
  Sampler sampler(model, *device);
  sampler.load(checkpoint->model);
  std::vector<int32_t> drawn;
  sampler.generate(tokenizer->encode(arguments.prompt), arguments.options, [&](int32_t token) {
    if (token < tokenizer->vocab_size()) drawn.push_back(token);
  });
  fmt::print("{}{}\n", arguments.prompt, printable(tokenizer->decode(drawn)));
}

}  // namespace

int sample(std::span<const std::string> given) {
  CLI::App app("Generates text from the newest checkpoint of a run.", "trireme sample");
  Arguments arguments;
  app.add_option("run", arguments.run, "the run's folder")->required();
  app.add_option("--prompt", arguments.prompt, "text to go on from");
  app.add_option("--tokens", arguments.options.tokens, "how many tokens to generate");
  app.add_option("--temperature", arguments.options.temperature, "0: the likeliest token each time");
  app.add_option("--top-k", arguments.options.top_k, "draw from so many likeliest tokens; 0: from all");
  app.add_option("--seed", arguments.options.seed, "of the draws");
  app.add_option("--device", arguments.device, "where to compute; default: where the run did");
  if (const auto code = parse_arguments(app, {given.begin(), given.end()})) return *code;
  print_sample(arguments);
  return kOk;
}

}  // namespace trireme::cli
