// A whole training job as `trireme train` runs it: starts the ranks, or joins those that mpirun, srun or
// torchrun started, chooses the plan, and trains.
//
//   int main() try {
//     const ResolvedConfig config = resolve_config({.command_line = {"train.steps=200", "run.dir=run"}});
//     RunObserver observer;
//     return run_training(config, observer, {.launch = {.ranks = 4}, .default_text = "text.txt"});
//   } catch (const Error& error) {
//     return report_failure("my_program", error);
//   }
//
// Ranks are processes (threads, with DeviceLinks::in_memory in launch). With launch.ranks, this process
// starts copies of itself with the same arguments, one for each rank. Each copy runs main() until it reaches
// run_training(), and trains there; the process that started them only waits. So everything before the call
// happens in every process, and must not depend on being the only one.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/comm/launch/environment.h"
#include "trireme/run/exit_code.h"
#include "trireme/run/loop.h"

namespace trireme {

// The plan that leaves the choice to the planner.
inline constexpr std::string_view kAutoPlan = "auto";

struct JobOptions {
  comm::LaunchOptions launch = {};  // the number of ranks, and how they talk
  // How the step is spread over the ranks: a plan in JSON, a file with one, the name of a preset, or
  // kAutoPlan. "": the preset `data`.
  std::string plan = {};
  // A cluster file: kAutoPlan chooses by it, and steps are compared with its prediction.
  std::string cluster = {};
  // How collectives choose their algorithms: "" fixed rules, "probe", or a file of links.
  std::string links = {};
  std::string trace = {};     // a file for the trace of all ranks
  std::string slow = {};      // slows one rank down: "rank=2,factor=3"
  std::string replay = {};    // as in RunContext
  ProductFile products = {};  // as in RunContext

  // What is trained, where it is not a family of the table. It outlives the call.
  const ModelRecord* model = nullptr;
  // The training data. Called on every rank. By default, opens the data that the settings name.
  std::function<OpenedData(const Config&)> open_data = nullptr;
  std::string default_text = {};  // the text to learn where the settings name no data
  // When it becomes true, the run ends after the step at hand, with a checkpoint. The program's signals are
  // then left as they are. Null: signals end the run, as run_training() says.
  const std::atomic<bool>* stop = nullptr;
};

// Trains, and returns an exit code (exit_code.h) for main(). Rank 0's observer hears of the run, as
// observer.h says. The process that started the ranks returns when all have ended; it returns the exit code
// of the first rank that failed, and 0 when none did. While steps are made, SIGINT, SIGTERM and SIGHUP end
// the run after the step at hand, with a checkpoint; SIGPIPE is ignored from here on. (But see
// JobOptions::stop.) Throws Error; mistakes in the plan are found before any rank is started.
int run_training(const ResolvedConfig& config, RunObserver& observer, const JobOptions& options = {});

// Says on standard error why this program ends: "PROGRAM: why". A rank tells its launcher instead, which says
// once what several ranks tell. Returns kFailed.
int report_failure(std::string_view program, const Error& error);

}  // namespace trireme
