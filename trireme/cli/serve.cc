// `trireme serve RUN`: a trained model that answers requests over HTTP, until it is stopped.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/output.h"
#include "trireme/base/text.h"
#include "trireme/bench/step_setup.h"
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"
#include "trireme/cli/serving.h"
#include "trireme/cli/step_flags.h"
#include "trireme/http/http_server.h"
#include "trireme/serve/served_model.h"
#include "trireme/serve/site.h"

namespace trireme::cli {
namespace {

constexpr const char* kTokenVariable = "TRIREME_TOKEN";

struct ServeFlags {
  std::string run, name, image, token_file;
  bool no_token = false;
  WeightsChoice choice;
  std::vector<std::string> settings, hosts;
  serve::ServeOptions options;
  http::ServerOptions server;
  double grace = 30;
};

std::string usual_name(const std::string& run) {
  const std::filesystem::path path = std::filesystem::path(run).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

// From where the command line says, or else the environment, or else a new one; "" for none.
std::string token_of(const ServeFlags& flags) {
  if (flags.no_token) {
    if (!flags.token_file.empty()) throw UsageError("--no-token and --token-file exclude each other");
    if (!http::is_loopback(flags.server.address))
      throw UsageError("--no-token is for this machine alone, and --bind is " + flags.server.address);
    return "";
  }
  if (!flags.token_file.empty()) return http::read_token(flags.token_file);
  const char* given = std::getenv(kTokenVariable);
  return given ? http::checked_token(given, kTokenVariable) : http::new_token();
}

int serve_model(const ServeFlags& flags) {
  const std::string token = token_of(flags);
  const TrainedModel trained = open_trained_model(flags.run, flags.choice, flags.settings);
  for (const std::string& message : trained.messages) say(stderr, "{}\n", message);
  // Blocked before any thread starts, so that they come to this one.
  const sigset_t signals = block_ending_signals();
  serve::ServedModel model(trained, flags.options);
  const std::string name = flags.name.empty() ? usual_name(flags.run) : flags.name;
  serve::Site site(name, flags.options.limits, {token, flags.hosts}, model.text(), model.images());
  http::HttpServer server(flags.server,
                          [&](const http::Request& request, int) { return site.answer(request); });
  say("model    {}: {}\n", name, model.summary());
  say("weights  {}\n", trained.weights);
  say("memory   {}\n", format_bytes(model.bytes()));
  say("address  http://{}:{}/v1\n", host_in_address(flags.server.address), server.port());
  if (token.empty())
    say("         everybody on this machine may ask; Ctrl-C ends it\n");
  else
    say("token    {}\n         Ctrl-C ends it\n",
        flags.token_file.empty() && !std::getenv(kTokenVariable) ? token : "as given");
  std::fflush(stdout);
  int signal = 0;
  sigwait(&signals, &signal);
  site.close();
  server.close_door();
  const int cut = model.drain(flags.grace);
  constexpr double kSendSeconds = 10;
  server.wait_until_idle(kSendSeconds);
  if (cut > 0)
    throw_error(
        "{} requests were not done {} s after the signal and were cut off; --grace gives them more time", cut,
        flags.grace);
  return kOk;
}

}  // namespace

int serve(std::span<const std::string> given) {
  CLI::App app(
      "Answers requests over HTTP with a trained model: text as OpenAI's API has it (POST /v1/completions), classes "
      "of images (POST /v1/classify).\nRUN is a run's folder, or a Hugging Face folder (GPT-2, Llama) with its "
      "tokenizer.json. Settings (--model.seq=256) override those of the folder.",
      "trireme serve");
  const SplitArguments split = split_settings(given);
  ServeFlags flags;
  flags.settings = split.settings;
  flags.server = {
      .connections = 512, .body_bytes = size_t{8} << 20, .threads = http::ServerOptions::Threads::kEach};
  serve::Limits& limits = flags.options.limits;
  app.add_option("run", flags.run, "the run's folder, or a Hugging Face folder")->required();
  add_weights_flags(app, flags.choice);
  app.add_option("--name", flags.name, "what clients call the model; default: the folder's name");
  app.add_option("--device", flags.options.device, "where to compute; default: where the run did");
  app.add_option("--threads", flags.options.threads, "of a CPU; default: all")->check(CLI::Range(0, 4096));
  app.add_option("--image", flags.image, "CHANNELSxHEIGHTxWIDTH of images; default: those of the run");
  app.add_option("--batch", limits.batch, "texts or images that are computed together, at most")
      ->capture_default_str();
  app.add_option("--queue", limits.waiting, "requests that may wait; more are answered with 429")
      ->capture_default_str();
  app.add_option("--max-tokens", limits.tokens, "of a request, at most")->capture_default_str();
  app.add_option("--max-body", flags.server.body_bytes, "bytes of a request, at most")->capture_default_str();
  app.add_option("--timeout", limits.seconds, "seconds for a request, waiting included")
      ->capture_default_str();
  app.add_option("--gather", limits.gather, "seconds for which an image waits for others")
      ->capture_default_str();
  app.add_option("--grace", flags.grace, "seconds for what is under way when the server is stopped")
      ->check(CLI::Range(0.0, 86400.0))
      ->capture_default_str();
  app.add_option("--port", flags.server.port, "default: any that is free")
      ->check(CLI::Range(0, 65535))
      ->type_name("N");
  app.add_option("--connections", flags.server.connections, "at most")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--bind", flags.server.address,
                 "the address to listen on; others than this machine's own can then reach it")
      ->capture_default_str()
      ->type_name("ADDRESS");
  app.add_option("--allow-host", flags.hosts,
                 "a name that clients may call this machine by, beside localhost")
      ->type_name("NAME");
  app.add_option(
         "--token-file", flags.token_file,
         fmt::format("a file with the token, of 16 characters or more; default: {} of the environment, or a "
                     "new one at every start",
                     kTokenVariable))
      ->type_name("FILE");
  app.add_flag("--no-token", flags.no_token, "everybody on this machine may ask");
  if (const auto code = parse_arguments(app, split.own)) return *code;
  if (!flags.image.empty()) flags.options.image = bench::parse_image(flags.image);
  limits.validate();
  flags.server.answer_seconds = static_cast<unsigned>(limits.seconds) + 2;
  return serve_model(flags);
}

}  // namespace trireme::cli
