// Starts ranks on this host as processes and looks after them until all have ended: `trireme … -n 4`.
//
//  - No orphans: the ranks die when the launcher does, however it does. They are one process group, so that
//    signals reach them all, and only through the launcher.
//  - Rank 0 has the launcher's standard output; lines of all other output are passed on whole, with
//    "[rank 2] " in front. Standard input of the ranks is empty.
//  - Each rank is bound to its share of the processors, or to one that as many others share (core_share.h).
//  - SIGINT, SIGTERM and SIGHUP are passed on to all ranks, once, and ranks that are stopped go on; a second
//    SIGINT or SIGTERM kills them. (Shells send several SIGHUPs when a terminal is closed.)
//  - When a rank fails, the others have grace_seconds() to end with an error of their own, then are killed;
//    the flight recorder's table is printed. But for ranks that are not needed: the others go on, once all
//    ranks have met. The same time is left to the others when a rank has ended after a signal, and to ranks
//    that are not needed when all others have ended.
//  - Why ranks end is said once (last_words.h): errors that several tell alike, and what the failure of one
//    looks like to the others.
//  - When a rank was killed or had to be, it is lost. With `elastic`, the others are killed at once, for what
//    they had is in the job's memory, and as many as are left are started again. After a while they are asked
//    by SIGUSR1 to end (LastWords::Kind::again) so that all can be started. Otherwise, and where too few are
//    left, `restarts` says whether all ranks are started again. A rank that ended with an error of its own
//    would do so again, and is not.
//  - The ranks inherit what they need to meet: the secret, rank 0 a socket that listens already (so no port
//    has to be free later), memory for the flight recorder. None of it has a name, so none is left behind.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/comm/launch/environment.h"

namespace trireme::comm {

struct LocalLaunch {
  int ranks = 1;         // with `elastic`, the most of it
  int needed_ranks = 0;  // as in LaunchOptions
  int restarts = 0;      // as in LaunchOptions
  std::optional<ElasticRanks> elastic = {};
  std::string memory = {};                                     // as in LaunchOptions
  std::function<void(const FlightRecord&)> on_loss = nullptr;  // as in LaunchOptions
  double timeout_seconds = 120;
  LaunchOptions::Bind bind = LaunchOptions::Bind::processors;
  std::string executable = "/proc/self/exe";
  std::vector<std::string> arguments;  // with the program's name; empty: those of this process
};

// How long the others may take to end after a rank failed: they notice a death within a second; what else
// they have to do (write a checkpoint) is given a part of the timeout.
double grace_seconds(double timeout_seconds);

// Returns when no rank is left. The exit code: 0 when all ranks ended with 0; 128 + the number of the signal
// when one was killed by a signal, or when a signal asked to stop ranks that ended to be started again;
// otherwise that of the rank that failed first. For a process with one
// thread. Throws Error when ranks could not be started.
int launch_local(const LocalLaunch& launch);

}  // namespace trireme::comm
