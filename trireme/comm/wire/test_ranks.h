// For tests: ranks as real processes. Each child runs a body and reports one text; the parent gets them all,
// or kills those that have not ended in time. A child that dies by a signal reports "signal N".
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "trireme/comm/wire/socket.h"

namespace trireme::comm {

class TestRanks {
 public:
  // What the body returns is the report; what it throws is "error: …".
  using Body = std::function<std::string(int rank)>;

  TestRanks(int ranks, const Body& body) {
    for (int rank = 0; rank < ranks; ++rank) add(rank, body);
  }
  ~TestRanks() {
    for (const Child& child : children_) {
      if (child.process > 0) kill(child.process, SIGKILL);
    }
    for (Child& child : children_) collect(child);
  }

  // Starts one more process (a rank that comes later, an attacker).
  void add(int rank, const Body& body) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
    const pid_t process = fork();
    if (process == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      std::string report;
      try {
        report = body(rank);
      } catch (const std::exception& error) {
        report = std::string("error: ") + error.what();
      }
      if (write(ends[1], report.data(), report.size()) < 0) _exit(3);
      _exit(0);
    }
    close(ends[1]);
    children_.push_back({process, Descriptor(ends[0]), ""});
  }

  pid_t process(int child) const { return children_[child].process; }

  // Reports in the order of starting; "hangs" for those that had to be killed after `seconds`.
  std::vector<std::string> reports(double seconds = 60) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    std::vector<std::string> all;
    for (Child& child : children_) {
      const auto left = deadline - std::chrono::steady_clock::now();
      const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
      pollfd entry{child.report.get(), POLLIN, 0};
      const bool ended = poll(&entry, 1, static_cast<int>(std::max<int64_t>(milliseconds, 0))) == 1;
      if (!ended) kill(child.process, SIGKILL);
      collect(child);
      all.push_back(ended ? child.text : "hangs");
    }
    return all;
  }

 private:
  struct Child {
    pid_t process;
    Descriptor report;
    std::string text;
  };

  static void collect(Child& child) {
    if (child.process <= 0) return;
    char buffer[4096];
    for (ssize_t got; (got = read(child.report.get(), buffer, sizeof buffer)) > 0;) {
      child.text.append(buffer, static_cast<size_t>(got));
    }
    int status = 0;
    waitpid(child.process, &status, 0);
    if (WIFSIGNALED(status)) child.text += "signal " + std::to_string(WTERMSIG(status));
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0) {
      child.text += "exit " + std::to_string(WEXITSTATUS(status));
    }
    child.process = 0;
  }

  std::vector<Child> children_;
};

}  // namespace trireme::comm
