// The sub-commands of `trireme`: one file each, named like the command, listed in main.cc.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/run/exit_code.h"

namespace trireme::cli {

struct Command {
  std::string_view name;
  std::string_view summary;  // one line, for `trireme help`
  // Arguments after the command's name. Throws Error for what main() should print.
  int (*run)(std::span<const std::string> arguments);
};

int train(std::span<const std::string> arguments);
int verify(std::span<const std::string> arguments);
int sample(std::span<const std::string> arguments);
int eval(std::span<const std::string> arguments);
int export_model(std::span<const std::string> arguments);
int inspect(std::span<const std::string> arguments);
int bench(std::span<const std::string> arguments);
int plan(std::span<const std::string> arguments);
int simulate(std::span<const std::string> arguments);
int profile(std::span<const std::string> arguments);
int place(std::span<const std::string> arguments);
int reproduce(std::span<const std::string> arguments);
int chaos(std::span<const std::string> arguments);
int doctor(std::span<const std::string> arguments);
int dashboard(std::span<const std::string> arguments);
int serve(std::span<const std::string> arguments);
int top(std::span<const std::string> arguments);
int config(std::span<const std::string> arguments);

// The parts of `trireme bench`, one file each.
int bench_collectives(std::span<const std::string> arguments);
int bench_kernels(std::span<const std::string> arguments);
int bench_train(std::span<const std::string> arguments);
int bench_scaling(std::span<const std::string> arguments);
int bench_batches(std::span<const std::string> arguments);

// The parts of `trireme inspect`, one file each.
int inspect_graph(std::span<const std::string> arguments);
int inspect_plan(std::span<const std::string> arguments);
int inspect_program(std::span<const std::string> arguments);
int inspect_exchange(std::span<const std::string> arguments);
int inspect_combinations(std::span<const std::string> arguments);
int inspect_numbers(std::span<const std::string> arguments);
int inspect_flight(std::span<const std::string> arguments);
int inspect_collectives(std::span<const std::string> arguments);
int inspect_schedule(std::span<const std::string> arguments);
int inspect_checkpoint(std::span<const std::string> arguments);
int inspect_run(std::span<const std::string> arguments);
int inspect_curvature(std::span<const std::string> arguments);
int inspect_onnx(std::span<const std::string> arguments);

// `trireme plan --fit`, which has other arguments than the search.
bool asks_for_fit(std::span<const std::string> arguments);
int plan_fit(std::span<const std::string> arguments);

// Of `trireme dashboard` and `trireme top`: the folders that were named, or runs/. Throws Error where none
// was named and runs/ is not there.
std::vector<std::string> folders_or_runs(std::vector<std::string> folders);

// What the command does when a GPU has faulted (fault_rerun.cc): the same command with
// train.device=cuda_debug in place of what it says of the device; empty for commands that train nothing, and
// where that is what was run.
std::vector<std::string> debug_arguments(std::span<const std::string> arguments);
// Runs it in place of this process, which has no more use of the GPU. Returns where it is not possible.
void run_again_in_debug_order(std::span<const std::string> arguments);

}  // namespace trireme::cli
