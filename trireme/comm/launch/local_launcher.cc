// See local_launcher.h. One loop over the ranks' output and the launcher's signals, all as descriptors.
#include "trireme/comm/launch/local_launcher.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/comm/launch/core_share.h"
#include "trireme/comm/launch/rank_process.h"
#include "trireme/comm/launch/secret.h"
#include "trireme/comm/recorder.h"
#include "trireme/comm/transport/tcp/socket.h"
#include "trireme/comm/transport/transport.h"

extern char** environ;

namespace trireme::comm {
namespace {

[[noreturn]] void refuse(const char* what) {
  throw_error("{} failed while starting local ranks: {}", what, std::strerror(errno));
}

class RecorderMemory {
 public:
  explicit RecorderMemory(int ranks)
      : descriptor_(memfd_create("trireme_recorder", MFD_CLOEXEC)), bytes_(Recorder::bytes_for(ranks)) {
    if (descriptor_.get() < 0 || ftruncate(descriptor_.get(), static_cast<off_t>(bytes_)) != 0)
      refuse("memfd_create");
    data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_.get(), 0);
    if (data_ == MAP_FAILED) refuse("mmap");
  }
  ~RecorderMemory() { munmap(data_, bytes_); }
  RecorderMemory(const RecorderMemory&) = delete;
  int descriptor() const { return descriptor_.get(); }
  std::span<std::byte> bytes() const { return {static_cast<std::byte*>(data_), bytes_}; }

 private:
  Descriptor descriptor_;
  size_t bytes_;
  void* data_ = nullptr;
};

// The launcher's signals as a descriptor, for as long as this lives.
class Signals {
 public:
  Signals() {
    sigset_t set;
    sigemptyset(&set);
    for (int number : {SIGCHLD, SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, number);
    sigprocmask(SIG_BLOCK, &set, &before_);
    descriptor_ = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (descriptor_ < 0) refuse("signalfd");
  }
  ~Signals() {
    close(descriptor_);
    sigprocmask(SIG_SETMASK, &before_, nullptr);
  }
  Signals(const Signals&) = delete;
  int descriptor() const { return descriptor_; }
  int next() {  // 0: none
    signalfd_siginfo info{};
    return read(descriptor_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  sigset_t before_{};
  int descriptor_ = -1;
};

std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  if (arguments.empty()) throw_error("/proc/self/cmdline is empty or unreadable; local ranks need /proc");
  return arguments;
}

// The rank's own variables, and this process's but for those of a launcher around it.
std::vector<std::string> environment_of(const std::vector<std::string>& own) {
  std::vector<std::string> environment = own;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("TRIREME_")) environment.emplace_back(*variable);
  }
  return environment;
}

std::string how_it_ended(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("ended with exit code {}", WEXITSTATUS(status));
  return fmt::format("was killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
}

class Ranks {
 public:
  explicit Ranks(const LocalLaunch& launch) : launch_(launch), recorder_(launch.ranks) {}
  ~Ranks() { kill_all(); }  // those that run when run() throws
  Ranks(const Ranks&) = delete;

  int run() {
    start();
    while (alive() > 0) {
      wait_for_something();
      while (const int number = signals_.next()) handle_signal(number);
      if (!killed_ && deadline_ && Clock::now() >= *deadline_) kill_late();
    }
    if (!dead_.empty() || killed_late_) {
      const Recorder reader(recorder_.bytes(), -1, launch_.ranks);
      say("the last operations of each rank:\n" + reader.table(/*rows=*/4, dead_));
    }
    return exit_code_;
  }

 private:
  void start() {
    const Descriptor secret(Secret::generate().to_descriptor());
    const Descriptor listener = listen_on("127.0.0.1:0");
    const std::vector<std::string> arguments =
        launch_.arguments.empty() ? own_arguments() : launch_.arguments;
    const std::vector<int> processors =
        launch_.bind == LaunchOptions::Bind::processors ? usable_processors() : std::vector<int>();
    for (int rank = 0; rank < launch_.ranks; ++rank) {
      RankSetup setup{.rank = rank,
                      .executable = launch_.executable,
                      .arguments = arguments,
                      .environment = {},
                      .inherited = {secret.get(), recorder_.descriptor()},
                      .process_group = ranks_.empty() ? 0 : ranks_.front()->pid(),
                      .processors = share_of(processors, launch_.ranks, rank)};
      std::vector<std::string> variables = {fmt::format("TRIREME_RANK={}", rank),
                                            fmt::format("TRIREME_RANKS={}", launch_.ranks),
                                            "TRIREME_RENDEZVOUS=" + local_address(listener.get()),
                                            fmt::format("TRIREME_SECRET_FD={}", secret.get()),
                                            fmt::format("TRIREME_RECORDER_FD={}", recorder_.descriptor())};
      if (!setup.processors.empty())
        variables.push_back(fmt::format("TRIREME_PROCESSORS={}", setup.processors.size()));
      if (rank == 0) {
        setup.inherited.push_back(listener.get());
        variables.push_back(fmt::format("TRIREME_LISTEN_FD={}", listener.get()));
      }
      setup.environment = environment_of(variables);
      ranks_.push_back(std::make_unique<RankProcess>(setup));
    }
  }

  int alive() const {
    return static_cast<int>(std::ranges::count_if(ranks_, [](const auto& rank) { return !rank->status(); }));
  }

  void wait_for_something() {
    std::vector<pollfd> polled = {{signals_.descriptor(), POLLIN, 0}};
    std::vector<RankProcess::Stream*> streams;
    for (const auto& rank : ranks_) {
      for (RankProcess::Stream& stream : rank->streams()) {
        if (stream.descriptor < 0) continue;
        polled.push_back({stream.descriptor, POLLIN, 0});
        streams.push_back(&stream);
      }
    }
    int wait_ms = -1;
    if (deadline_ && !killed_) {
      const std::chrono::duration<double, std::milli> left = *deadline_ - Clock::now();
      wait_ms = std::max(0, static_cast<int>(std::ceil(left.count())));
    }
    if (poll(polled.data(), polled.size(), wait_ms) <= 0) return;
    for (size_t i = 0; i < streams.size(); ++i) {
      if (polled[i + 1].revents != 0) RankProcess::pass_on(*streams[i]);
    }
  }

  void handle_signal(int number) {
    if (number == SIGCHLD) {
      for (const auto& rank : ranks_) {
        if (rank->reap()) ended(*rank);
      }
      return;
    }
    if (interrupted_by_ != 0) {
      say("killing the ranks\n");
      kill_all();
      return;
    }
    interrupted_by_ = number;
    signal_all(number);
  }

  void ended(RankProcess& rank) {
    for (RankProcess::Stream& stream : rank.streams())
      RankProcess::finish(stream);  // its last words come before ours
    const int status = *rank.status();
    const bool signalled = WIFSIGNALED(status);
    const int code = signalled ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    if (code == 0) return;
    if (launch_.needed_ranks > 0 && rank.rank() >= launch_.needed_ranks) {
      if (exit_code_ == 0 && interrupted_by_ == 0)
        say(fmt::format("rank {} {}; the others go on\n", rank.rank(), how_it_ended(status)));
      return;
    }
    const bool first = exit_code_ == 0;
    const bool by_itself = !killed_ && interrupted_by_ == 0;
    // A rank that a signal killed is the cause, though others may have noticed and ended a moment earlier.
    if (first || (signalled && by_itself && dead_.empty())) exit_code_ = code;
    if (!by_itself) return;
    const std::string how = how_it_ended(status);
    say(fmt::format("rank {} {}\n", rank.rank(), how));
    if (signalled) dead_[rank.rank()] = how;
    if (first) {
      const std::chrono::duration<double> grace(grace_seconds(launch_.timeout_seconds));
      deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(grace);
    }
  }

  void kill_late() {
    std::vector<std::string> late;
    for (const auto& rank : ranks_) {
      if (!rank->status()) late.push_back(std::to_string(rank->rank()));
    }
    say(fmt::format("rank {} did not end within {:g} s after that: killed\n", join(late, ", "),
                    grace_seconds(launch_.timeout_seconds)));
    killed_late_ = true;
    kill_all();
  }

  void signal_all(int number) {
    if (!ranks_.empty() && alive() > 0) kill(-ranks_.front()->pid(), number);
  }

  // And waits for their end, so that nothing is left behind.
  void kill_all() {
    killed_ = true;
    for (const auto& rank : ranks_) {
      if (!rank->status()) kill(rank->pid(), SIGKILL);
    }
    for (const auto& rank : ranks_) {
      while (!rank->status()) {
        siginfo_t info{};
        waitid(P_PID, static_cast<id_t>(rank->pid()), &info, WEXITED | WNOWAIT);
        if (rank->reap()) ended(*rank);
      }
    }
  }

  static void say(const std::string& text) { fmt::print(stderr, "trireme: {}", text); }

  const LocalLaunch& launch_;
  RecorderMemory recorder_;
  Signals signals_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  std::optional<Clock::time_point> deadline_;  // since a rank failed
  int interrupted_by_ = 0;
  bool killed_ = false;
  bool killed_late_ = false;
  std::map<int, std::string> dead_;  // ranks that a signal killed, none of ours
  int exit_code_ = 0;
};

}  // namespace

double grace_seconds(double timeout_seconds) {
  return 1 + std::min(timeout_seconds, 10.0);
}

int launch_local(const LocalLaunch& launch) {
  return Ranks(launch).run();
}

}  // namespace trireme::comm
