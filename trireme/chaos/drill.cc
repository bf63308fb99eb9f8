// The table; see drill.h.
#include "trireme/chaos/drill.h"

#include <algorithm>
#include <array>

#include "trireme/base/enum_name.h"
#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/plan/plan.h"

namespace trireme::chaos {
namespace {

constexpr EnumNames<15> kFaultNames = {"kill",       "crash",        "stop",      "pause",
                                       "partition",  "one way",      "slow link", "disk full",
                                       "I/O error",  "kill at file", "flip wire", "flip weight",
                                       "flip state", "flip number",  "stranger"};
constexpr EnumNames<4> kPhaseNames = {"start", "step", "evaluation", "checkpoint"};
constexpr EnumNames<6> kExpectedNames = {"named", "goes on", "restarts", "unharmed", "right", "resumes"};

// All states are written by all ranks at every step, and training waits for it.
const std::vector<std::string> kSavesAlways = {"--run.checkpoint_every=1", "--run.save_in_background=false"};
const std::vector<std::string> kEvaluatesAlways = {"--train.eval_every=1", "--train.eval_batches=200"};
const std::vector<std::string> kElastic = {"--elastic=2:4", "--grow-after=0.3", "--run.memory_copy_every=1",
                                           "--train.compare_every=1"};
const std::vector<std::string> kElasticShards = {"--elastic=2:4", "--grow-after=0.3",
                                                 "--run.memory_copy_every=1", "--train.compare_every=1",
                                                 "--train.shards=4"};

}  // namespace

std::string_view name(Fault fault) {
  return kFaultNames.at(static_cast<size_t>(fault));
}
std::string_view name(Phase phase) {
  return kPhaseNames.at(static_cast<size_t>(phase));
}
std::string_view name(Expected expected) {
  return kExpectedNames.at(static_cast<size_t>(expected));
}

const std::vector<Drill>& drills() {
  using enum Fault;
  using enum Phase;
  using enum Expected;
  static const std::vector<Drill> kDrills = {
      {.name = "kill-start",
       .fault = kKill,
       .phase = kStart,
       .expected = kNamed,
       .promise = 1,
       .detection = 1},
      {.name = "kill-step",
       .fault = kKill,
       .phase = kStep,
       .expected = kNamed,
       .promise = 1,
       .detection = 1,
       .ranks = 4,
       .over_hosts = true},
      {.name = "crash-step",
       .fault = kCrash,
       .phase = kStep,
       .expected = kNamed,
       .promise = 1,
       .detection = 1},
      {.name = "kill-evaluation",
       .fault = kKill,
       .phase = kEvaluation,
       .expected = kNamed,
       .promise = 1,
       .detection = 1,
       .arguments = kEvaluatesAlways},
      {.name = "kill-checkpoint",
       .fault = kKill,
       .phase = kCheckpoint,
       .expected = kNamed,
       .promise = 1,
       .detection = 1,
       .arguments = kSavesAlways},
      {.name = "stop-step",
       .fault = kStop,
       .phase = kStep,
       .expected = kNamed,
       .promise = 2,
       .detection = 2 + 1,
       .ranks = 4,
       .timeout = 2,
       .over_hosts = true},
      {.name = "stop-checkpoint",
       .fault = kStop,
       .phase = kCheckpoint,
       .expected = kNamed,
       .promise = 2,
       .detection = 2 + 1,
       .timeout = 2,
       .arguments = kSavesAlways},
      {.name = "pause-step",
       .fault = kPause,
       .phase = kStep,
       .expected = kUnharmed,
       .promise = 2,
       .timeout = 6,
       .steps = 200},
      {.name = "partition",
       .fault = kPartition,
       .phase = kStep,
       .expected = kNamed,
       .promise = 3,
       .detection = 5,
       .timeout = 2,
       .over_shm = false,
       .over_hosts = true},
      {.name = "one-way",
       .fault = kOneWay,
       .phase = kStep,
       .expected = kNamed,
       .promise = 3,
       .detection = 5,
       .timeout = 2,
       .over_shm = false,
       .over_hosts = true},
      {.name = "slow-link",
       .fault = kSlowLink,
       .phase = kStart,
       .expected = kUnharmed,
       .promise = 3,
       .timeout = 5,
       .steps = 5,
       .over_hosts = true},
      {.name = "elastic-kill",
       .fault = kKill,
       .phase = kStep,
       .expected = kGoesOn,
       .promise = 4,
       .detection = 1,
       .recovery = 5,
       .ranks = 4,
       .timeout = 5,
       .steps_again = 1,
       .same_numbers = false,
       .arguments = kElastic},
      {.name = "elastic-many",
       .fault = kKill,
       .phase = kStep,
       .expected = kGoesOn,
       .promise = 4,
       .detection = 1,
       .recovery = 5,
       .ranks = 4,
       .timeout = 5,
       .steps_again = 1,
       .faults = 3,
       .arguments = kElasticShards},
      {.name = "elastic-stop",
       .fault = kStop,
       .phase = kStep,
       .expected = kGoesOn,
       .promise = 4,
       .ranks = 4,
       .timeout = 2,
       .steps_again = 1,
       .same_numbers = false,
       .arguments = kElastic},
      {.name = "restart-kills",
       .fault = kKill,
       .phase = kStep,
       .expected = kRestarts,
       .promise = 5,
       .detection = 1,
       .steps = 300,
       .steps_again = 20,
       .faults = 3,
       .arguments = {"--restarts=3", "--run.checkpoint_every=20", "--run.save_in_background=false"}},
      {.name = "kill-at-file",
       .fault = kKillAtFile,
       .phase = kCheckpoint,
       .expected = kResumes,
       .promise = 6,
       .steps = 60,
       .arguments = {"--run.checkpoint_every=20"}},
      {.name = "disk-full",
       .fault = kDiskFull,
       .phase = kStep,
       .expected = kUnharmed,
       .promise = 7,
       .detection = 1,
       .steps = 30,
       .arguments = kSavesAlways},
      {.name = "io-error",
       .fault = kIoError,
       .phase = kStep,
       .expected = kUnharmed,
       .promise = 7,
       .detection = 1,
       .steps = 30,
       .arguments = kSavesAlways},
      {.name = "flip-wire",
       .fault = kFlipWire,
       .phase = kStep,
       .expected = kNamed,
       .promise = 11,
       .detection = 2,
       .ranks = 4,
       .over_shm = false},
      {.name = "flip-weight",
       .fault = kFlipWeight,
       .phase = kCheckpoint,
       .expected = kNamed,
       .promise = 11,
       .detection = 2,
       .ranks = 4,
       .arguments = {"--run.checkpoint_every=1", "--run.save_in_background=false",
                     "--train.compare_every=1"}},
      {.name = "flip-optimizer",
       .fault = kFlipOptimizer,
       .phase = kCheckpoint,
       .expected = kNamed,
       .promise = 11,
       .detection = 2,
       .ranks = 4,
       .arguments = {"--run.checkpoint_every=1", "--run.save_in_background=false",
                     "--train.compare_every=1"}},
      {.name = "flip-number",
       .fault = kFlipNumber,
       .phase = kStep,
       .expected = kRight,
       .promise = 11,
       .detection = 2,
       .ranks = 4,
       .faults = 20,
       .arguments = {"--train.recheck_every=1", "--train.compare_every=1"}},
      {.name = "stranger",
       .fault = kStranger,
       .phase = kStart,
       .expected = kUnharmed,
       .promise = 13,
       .steps = 50,
       .over_shm = false,
       .over_hosts = true},
  };
  return kDrills;
}

// Copies in memory are made where all ranks have something in common.
int64_t steps_a_loss_may_cost(const ChosenDrill& chosen) {
  int64_t period = 1;
  if (!chosen.plan.empty()) {
    const Agreement& agreement = read_plan(chosen.plan, chosen.drill->ranks).agreement;
    if (agreement.has_own_weights()) period = agreement.period();
  }
  return std::max(chosen.drill->steps_again, period);
}

std::vector<ChosenDrill> chosen(const Choice& choice) {
  std::vector<std::string> names;
  for (const Drill& drill : drills()) names.emplace_back(drill.name);
  for (const std::string& wanted : choice.only) {
    if (std::ranges::none_of(names, [&](const std::string& one) { return one.starts_with(wanted); }))
      throw_error("there is no drill '{}'; {}. `trireme chaos --list` shows all", wanted,
                  suggestion(wanted, names));
  }
  const auto is_wanted = [&](const Drill& drill) {
    return choice.only.empty() || std::ranges::any_of(choice.only, [&](const std::string& wanted) {
             return drill.name.starts_with(wanted);
           });
  };
  std::vector<ChosenDrill> result;
  for (const Drill& drill : drills()) {
    if (!is_wanted(drill) || (choice.hosts > 1 && !drill.over_hosts)) continue;
    if (choice.soak_seconds > 0 && (drill.expected != Expected::kGoesOn || drill.same_numbers)) continue;
    for (const char* transport : {"shm", "tcp"}) {
      const bool goes = transport == std::string_view("tcp") || (drill.over_shm && choice.hosts == 1);
      if (!goes || (!choice.transport.empty() && choice.transport != transport)) continue;
      const std::vector<std::string> plans =
          choice.plans.empty() ? std::vector<std::string>{""} : choice.plans;
      for (const std::string& plan : plans)
        result.push_back({&drill, transport, choice.hosts, plan, choice.soak_seconds});
    }
  }
  if (result.empty() && choice.soak_seconds > 0)
    throw_error("a soak is of a job that goes on without a rank; choose from elastic-kill and elastic-stop");
  if (result.empty())
    throw_error("no drill is left: {}{}{} asks for drills that do not go over {}", join(choice.only, " "),
                choice.only.empty() ? "" : " ", choice.hosts > 1 ? "--hosts 2" : "this choice",
                choice.transport.empty() ? "two hosts" : choice.transport);
  return result;
}

}  // namespace trireme::chaos
