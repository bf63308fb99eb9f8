// A child process whose output is read line by line. It ends when this process does.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trireme/base/clock.h"
#include "trireme/chaos/system_calls.h"

namespace trireme::chaos {

struct Line {
  Clock::time_point at;  // when it was read
  std::string text;
  bool is_step = false;  // "step 7/300 …", and not "step 7  validation …"
};

class Child {
 public:
  // `variables`: of its environment, beside ours without those of launchers. `calls`, which may be null, sees
  // its system calls. Throws Error where it can not be started.
  Child(const std::vector<std::string>& command, const std::map<std::string, std::string>& variables = {},
        SystemCalls* calls = nullptr);
  ~Child();  // kills it
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  int output() const { return output_; }  // to poll; -1 when it is closed
  // Takes what there is of its output, and looks whether it has ended, without waiting.
  void look();
  // Of very many, those of steps of long ago are left out.
  const std::vector<Line>& lines() const { return lines_; }
  int64_t steps() const { return steps_; }  // among the lines
  // As shells have it: 128 + the signal that killed it. Nothing while it runs.
  std::optional<int> exit_code() const { return exit_code_; }
  Clock::time_point ended_at() const { return ended_at_; }
  void kill();  // and waits for its end

 private:
  void take(const char* bytes, size_t size);
  void forget_old_steps();

  pid_t pid_ = -1;
  int output_ = -1;
  std::string begun_;  // of a line
  std::vector<Line> lines_;
  int64_t steps_ = 0;
  std::optional<int> exit_code_;
  Clock::time_point ended_at_;
};

}  // namespace trireme::chaos
