// See profile_inference.h.
#include "trireme/cli/profile_inference.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>

#include "trireme/cli/arguments.h"
#include "trireme/cli/step_flags.h"
#include "trireme/placed/inference_profile.h"

namespace trireme::cli {
namespace {

std::pair<std::string, double> worker_of(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return {text, 1};
  double factor = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data() + equals + 1, end, factor);
  if (error != std::errc() || last != end || !(factor > 0))
    throw UsageError(fmt::format("--worker {}: NAME=FACTOR expected, a factor above 0", text));
  return {text.substr(0, equals), factor};
}

}  // namespace

void add_inference_flags(CLI::App& app, InferenceFlags& flags) {
  CLI::Option* inference =
      app.add_option(
             "--inference", flags.run,
             "measure a trained run as a variant of a workflow instead: the time of an item, the size of "
             "its output, its accuracy on held-out data")
          ->type_name("RUN");
  app.add_option(
         "--worker", flags.workers,
         "a class of workers of the workflow, and how many times slower than this machine it is; several "
         "may be given")
      ->type_name("NAME[=FACTOR]")
      ->needs(inference);
  app.add_option("--tokens", flags.tokens, "of a text that a language model writes")
      ->check(CLI::Range(1, 1 << 20))
      ->needs(inference);
  app.add_option("--items", flags.items, "that are timed")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str()
      ->needs(inference);
  app.add_option("--batches", flags.batches, "of held-out data for the accuracy; default: all")
      ->check(CLI::Range(0L, 1L << 40))
      ->needs(inference);
  app.add_option("--inputs", flags.inputs,
                 "accuracies of the ops before it, at which the measured one holds; one for each")
      ->delimiter(',')
      ->type_name("A,…")
      ->needs(inference);
}

std::string profile_variant(const InferenceFlags& flags) {
  placed::ProfileQuestion question{.run = flags.run,
                                   .default_text = default_text(),
                                   .workers = {},
                                   .tokens = flags.tokens,
                                   .items = flags.items,
                                   .batches = flags.batches,
                                   .inputs = flags.inputs};
  for (const std::string& worker : flags.workers) question.workers.push_back(worker_of(worker));
  if (question.workers.empty()) question.workers = {{"here", 1}};
  return placed::to_toml(question, placed::profile_inference(question));
}

}  // namespace trireme::cli
