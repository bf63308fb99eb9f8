// --checkpoint STEP|best, of the commands that use a trained model.
#pragma once

#include "trireme/run/saved_run.h"

namespace CLI {
class App;
}

namespace trireme::cli {

// `choice` outlives the parsing.
void add_checkpoint_flag(CLI::App& app, CheckpointChoice& choice);

}  // namespace trireme::cli
