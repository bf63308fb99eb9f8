// `trireme bench`: finds the part that is asked for.
#include "trireme/cli/arguments.h"
#include "trireme/cli/command.h"

namespace trireme::cli {
namespace {

constexpr Command kBenchParts[] = {
    {"kernels", "check the main kernels and time them against this machine's ceilings", bench_kernels},
    {"collectives", "check collectives on ranks and time them beside what the links predict",
     bench_collectives},
    {"train", "time training steps on random data; --profile shows where the time goes", bench_train},
    {"scaling", "strong and weak scaling of training steps over ranks, beside what the simulator says",
     bench_scaling},
    {"batches", "train at equal epochs with several batches and rates: losses, sharpness, critical batch",
     bench_batches},
};

}  // namespace

int bench(std::span<const std::string> arguments) {
  return run_command_of("bench", kBenchParts, arguments);
}

}  // namespace trireme::cli
