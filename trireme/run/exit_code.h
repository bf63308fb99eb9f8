// The exit codes of `trireme` and of programs that call run_training(). Scripts may rely on them:
// docs/cli.md.
#pragma once

namespace trireme {

enum ExitCode : int {
  kOk = 0,
  kFailed = 1,       // an Error, which was printed
  kUsage = 2,        // the command line was not understood
  kInterrupted = 3,  // SIGINT or SIGTERM: the step was finished and a checkpoint written
  kDiffers = 4,      // verify: a plan computes something else than one rank
  kTimeIsUp = 5,     // train.max_minutes: the step was finished and a checkpoint written
};

}  // namespace trireme
