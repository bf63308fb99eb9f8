// See checkpoint_flag.h.
#include "trireme/cli/checkpoint_flag.h"

#include <CLI/CLI.hpp>

#include "trireme/base/error.h"

namespace trireme::cli {

void add_checkpoint_flag(CLI::App& app, CheckpointChoice& choice) {
  app.add_option_function<std::string>(
         "--checkpoint",
         [&choice](const std::string& text) {
           try {
             choice = CheckpointChoice::parse(text);
           } catch (const Error& error) {
             throw CLI::ValidationError("--checkpoint", error.what());
           }
         },
         "the step of the checkpoint, or best: the one with the lowest held-out loss (run.keep_best); the "
         "newest, if not said")
      ->type_name("STEP|best");
}

}  // namespace trireme::cli
