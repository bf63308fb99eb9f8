// One job of `trireme train` with real ranks on this machine, as a drill sees it: what it says, its
// processes, its steps. Its folder outlives it.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/chaos/child.h"

namespace trireme::chaos {

class Job {
 public:
  using Condition = std::function<bool()>;

  explicit Job(int ranks) : ranks_(ranks) {}

  // One process that starts the ranks, or one of several that are the ranks, in their order.
  Child& start(const std::vector<std::string>& command,
               const std::map<std::string, std::string>& variables = {}, SystemCalls* calls = nullptr);

  // Looks at all processes until `condition` holds. Throws Error, with the end of what the job said, where
  // that takes more than so many seconds. Also where the job ends before, unless `until_end` says that it
  // may.
  enum class End { kIsAnError, kMayCome };
  void wait_until(std::string_view what, double seconds, const Condition& condition,
                  End end = End::kIsAnError);
  // Looks for so long, whatever happens.
  void watch_for(double seconds);
  // Waits for the end of all processes, and returns the first exit code that is not 0, or 0.
  int wait_for_end(double seconds);

  // The processes of the ranks that run now, by their numbers.
  std::map<int, pid_t> rank_processes();
  // All of them that were ever seen by rank_processes(), and the folders in memory that they had.
  const std::set<pid_t>& seen_processes() const { return seen_processes_; }
  const std::set<std::string>& seen_folders() const { return seen_folders_; }
  // The first line since then, but for those of steps, for which `is_it` holds, of the first process that has
  // one; null: there is none.
  const Line* find_line(Clock::time_point since, const std::function<bool(const std::string&)>& is_it) const;
  const Line* find_line(Clock::time_point since, std::string_view part) const;
  int64_t steps() const;                                                // lines of steps that it has printed
  Clock::time_point time_of_step_from(Clock::time_point moment) const;  // max(): none yet
  std::string last_lines(size_t count) const;
  const std::vector<std::unique_ptr<Child>>& children() const { return children_; }
  void kill();

 private:
  void look(int milliseconds);
  bool has_ended() const;

  int ranks_;
  std::set<pid_t> seen_processes_;
  std::set<std::string> seen_folders_;
  std::vector<std::unique_ptr<Child>> children_;
};

}  // namespace trireme::chaos
