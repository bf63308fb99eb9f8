// What a drill needs around it: a folder with a text to learn, the command of its job, two hosts if it is
// over two, and a hand on the system calls of its ranks.
#pragma once

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/chaos/drill.h"
#include "trireme/chaos/hosts.h"
#include "trireme/chaos/job.h"
#include "trireme/chaos/system_calls.h"

namespace trireme::chaos {

struct SceneOptions {
  std::string executable = {};  // the command whose `train` is drilled; "": this program
};

class Scene {
 public:
  Scene(const ChosenDrill& drill, const SceneOptions& options);
  ~Scene();  // ends the jobs and removes the folder
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;

  std::filesystem::path run() const { return folder_ / "run"; }

  // The job, in run(). Ranks are started by `trireme train -n`, or by hand where the drill is over two hosts
  // or has a stranger among them. A job that ended before is forgotten.
  Job& start_job();
  Job& job() { return *job_; }
  // The same job without faults, over shared memory, in a folder of its own. Returns losses by step, of at
  // least so many steps.
  std::map<int64_t, double> losses_without_faults(int64_t steps);

  // A process without the secret, which says that it is the last rank; for drills with a stranger, before the
  // real one is started.
  Job start_stranger() const;
  void start_last_rank();

  // From now on, where the job was started with these faults.
  void arm(int victim);  // it is the process of the rank, for one-way loss
  void disarm() { armed_ = false; }
  // Kills a rank at the file operation of this number, counted from arm().
  void kill_at_file(int operation) { fatal_operation_ = operation; }
  bool has_killed() const { return has_killed_; }
  TwoHosts* hosts() { return hosts_ ? &*hosts_ : nullptr; }

 private:
  std::vector<std::string> command(const std::filesystem::path& run, double timeout) const;
  bool starts_ranks_by_hand() const;
  void start_rank(int rank);
  std::map<std::string, std::string> variables_of(int rank, const std::string& secret) const;
  void watch_system_calls();
  SystemCalls::Answer answer(const SystemCalls::Call& call);

  const Drill& drill_;
  const std::string transport_, plan_;
  SceneOptions options_;
  std::filesystem::path folder_;
  std::optional<TwoHosts> hosts_;
  std::string secret_, port_;
  std::atomic<bool> armed_{false}, has_killed_{false};
  std::atomic<pid_t> victim_{0};
  std::atomic<int> fatal_operation_{0}, operations_{0};
  std::vector<std::unique_ptr<SystemCalls>> calls_;  // of one process each
  std::unique_ptr<Job> job_;                         // ends before what watches it
};

// Losses by step, of a run's folder. Throws Error.
std::map<int64_t, double> read_losses(const std::filesystem::path& run);

}  // namespace trireme::chaos
