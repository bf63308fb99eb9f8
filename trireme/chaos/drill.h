// The drills of `trireme chaos` as data: what is done to a job of `trireme train`, when, and what has to
// become of it. docs/reliability.md has the promises by their numbers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::chaos {

enum class Fault : uint8_t {
  kKill,           // SIGKILL, to one rank
  kCrash,          // SIGSEGV, to one rank
  kStop,           // SIGSTOP, for good
  kPause,          // SIGSTOP, and SIGCONT after a third of the timeout
  kPartition,      // nothing that ranks send arrives
  kOneWay,         // nothing that one rank (with several hosts: one host) sends arrives
  kSlowLink,       // 1 Mbit/s between ranks
  kDiskFull,       // checkpoints can not be written for a while: ENOSPC
  kIoError,        // the same, with EIO
  kKillAtFile,     // the whole job is killed at one of the file operations of a checkpoint
  kFlipWire,       // one bit of a message between ranks
  kFlipWeight,     // one bit of a weight in the memory of one rank
  kFlipOptimizer,  // one bit of a state of the optimizer
  kFlipNumber,     // one bit of a number that one rank computes with, wherever it finds itself
  kStranger,       // a process without the secret wants to be a rank of the job
};
std::string_view name(Fault fault);

// When a fault strikes; then after a moment that the seed decides.
enum class Phase : uint8_t { kStart, kStep, kEvaluation, kCheckpoint };
std::string_view name(Phase phase);

enum class Expected : uint8_t {
  kNamed,     // the job ends, and says which rank was at fault
  kGoesOn,    // the ranks that are left continue, then all of them, to the last step
  kRestarts,  // all ranks are started again, and end with the numbers of a job without faults
  kUnharmed,  // the job ends with the numbers of a job without faults, without having lost a rank
  kRight,     // the job ends with the numbers of a job without faults, or names the rank that was struck
  kResumes,   // the job ends; the same command continues from a whole checkpoint, with the same numbers
};
std::string_view name(Expected expected);

struct Drill {
  std::string_view name;
  Fault fault;
  Phase phase;
  Expected expected;
  int promise;  // its number in docs/reliability.md
  double detection =
      0;                // seconds from the fault to its name in the output, at most; 0: nothing is to be said
  double recovery = 0;  // seconds from the fault to the next step, at most; 0: not measured
  int ranks = 2;
  double timeout = 30;       // --timeout of the job
  int64_t steps = 0;         // that a job which survives has made at least when it is stopped
  int64_t steps_again = 0;   // that a loss may cost, where the job continues
  int faults = 1;            // one after the other, in one job
  bool same_numbers = true;  // of a job that survives, as without faults; or replicas are compared alone
  std::vector<std::string> arguments = {};  // beside those of all drills
  bool over_shm = true;                     // or over tcp alone
  bool over_hosts = false;                  // also between two hosts
};

const std::vector<Drill>& drills();

// Which ones a person asked for.
struct Choice {
  std::vector<std::string> only = {};  // names, or beginnings of names; empty: all
  std::string transport = {};          // "shm" or "tcp"; empty: both
  int hosts = 1;                       // 2: drills that go over two hosts, on network namespaces
  double soak_seconds =
      0;  // above 0: only drills in which a job goes on, each in one job that loses ranks for so long
  std::vector<std::string> plans = {};  // each drill under each of them; empty: under that of the command
};

// A drill over one transport, under one plan.
struct ChosenDrill {
  const Drill* drill;
  std::string transport;
  int hosts;
  std::string plan = {};    // of its jobs, as --plan takes it; "": that of the command
  double soak_seconds = 0;  // of Choice
};
// How many steps a loss may cost: those of the drill, or of a plan whose ranks agree more rarely than that.
// Throws Error where the plan can not be.
int64_t steps_a_loss_may_cost(const ChosenDrill& chosen);

// In the order of the table. Throws Error where a name is that of no drill, or nothing is left.
std::vector<ChosenDrill> chosen(const Choice& choice);

}  // namespace trireme::chaos
