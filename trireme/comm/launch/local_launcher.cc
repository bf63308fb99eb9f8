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
#include <set>

#include "trireme/base/clock.h"
#include "trireme/base/error.h"
#include "trireme/base/output.h"
#include "trireme/base/text.h"
#include "trireme/comm/engine/recorder.h"
#include "trireme/comm/launch/core_share.h"
#include "trireme/comm/launch/rank_process.h"
#include "trireme/comm/launch/restarts.h"
#include "trireme/comm/transport/transport.h"
#include "trireme/comm/wire/secret.h"
#include "trireme/comm/wire/socket.h"

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

int milliseconds_until(Clock::time_point time) {
  const std::chrono::duration<double, std::milli> left = time - Clock::now();
  return std::max(0, static_cast<int>(std::ceil(left.count())));
}

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// What others notice of a failure comes within this time of its cause, or there is none to come.
constexpr std::chrono::milliseconds kEchoWaits{500};

class Ranks {
 public:
  Ranks(const LocalLaunch& launch, int count, const std::optional<StartedAgain>& again, Signals& signals)
      : launch_(launch), count_(count), again_(again), recorder_(count), signals_(signals) {}
  ~Ranks() { kill_all(); }  // those that run when run() throws
  Ranks(const Ranks&) = delete;

  int run() {
    start();
    while (alive() > 0) {
      wait_for_something();
      while (const int number = signals_.next()) handle_signal(number);
      if (echo_until_ && Clock::now() >= *echo_until_) say_echo();
      if (!killed_ && deadline_ && Clock::now() >= *deadline_) kill_late();
      if (grow_at_ && Clock::now() >= *grow_at_) ask_for_room();
    }
    say_echo();
    if (!dead_.empty() || killed_late_) {
      FlightRecord record = flight_record(recorder_.bytes(), count_, dead_);
      say("the last operations of each rank:\n" + table_of(record, /*rows=*/4));
      for (const int rank : stuck_) record.ends.try_emplace(rank, "was stuck");
      if (launch_.on_loss) launch_.on_loss(record);
    }
    return exit_code_;
  }
  // After run(): whether ranks were lost, how many, and since when it is known.
  bool lost_a_rank() const {
    return interrupted_by_ == 0 && (!dead_.empty() || killed_late_ || only_echoes());
  }
  int lost() const { return std::max(1, static_cast<int>(dead_.size() + stuck_.size())); }
  StartedAgain loss() const {
    std::vector<std::string> whys;
    for (const auto& [rank, how] : dead_) whys.push_back(fmt::format("rank {} {}", rank, how));
    for (const int rank : stuck_) whys.push_back(fmt::format("rank {} was stuck", rank));
    return {lost_at_, whys.empty() ? "a rank did not answer in time" : trireme::join(whys, ", ")};
  }
  // After run(): whether the ranks ended to be started again, and which signal asked the launcher to stop.
  bool made_room() const { return exit_code_ == 0 && makes_room_; }
  int interrupted_by() const { return interrupted_by_; }

  // After run(), for so long: whether a signal asks the launcher to end.
  bool is_interrupted_within(Restarts::Seconds wait) {
    const Clock::time_point end = Clock::now() + std::chrono::duration_cast<Clock::duration>(wait);
    while (Clock::now() < end) {
      pollfd signals{signals_.descriptor(), POLLIN, 0};
      poll(&signals, 1, milliseconds_until(end));
      while (const int number = signals_.next()) {
        if (number != SIGCHLD) return true;
      }
    }
    return false;
  }
  static void say(const std::string& text) { print("trireme: " + text); }

 private:
  void start() {
    const Descriptor secret(Secret::generate().to_descriptor());
    const Descriptor listener = listen_on("127.0.0.1:0");
    const std::vector<std::string> arguments =
        launch_.arguments.empty() ? own_arguments() : launch_.arguments;
    const std::vector<int> processors =
        launch_.bind == LaunchOptions::Bind::processors ? usable_processors() : std::vector<int>();
    if (launch_.elastic && count_ < launch_.ranks)
      grow_at_ = Clock::now() + clock_duration(launch_.elastic->grow_after_seconds);
    for (int rank = 0; rank < count_; ++rank) {
      RankSetup setup{.rank = rank,
                      .executable = launch_.executable,
                      .arguments = arguments,
                      .environment = {},
                      .inherited = {secret.get(), recorder_.descriptor()},
                      .process_group = ranks_.empty() ? 0 : ranks_.front()->pid(),
                      .processors = share_of(processors, count_, rank)};
      std::vector<std::string> variables = {fmt::format("TRIREME_RANK={}", rank),
                                            fmt::format("TRIREME_RANKS={}", count_),
                                            "TRIREME_RENDEZVOUS=" + local_address(listener.get()),
                                            fmt::format("TRIREME_SECRET_FD={}", secret.get()),
                                            fmt::format("TRIREME_RECORDER_FD={}", recorder_.descriptor())};
      if (!launch_.memory.empty()) variables.push_back("TRIREME_MEMORY=" + launch_.memory);
      if (again_) {
        variables.push_back(fmt::format("TRIREME_AGAIN_SINCE={:.3f}", again_->since));
        variables.push_back("TRIREME_AGAIN_BECAUSE=" + again_->why);
      }
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
    std::optional<Clock::time_point> wake = killed_ ? std::nullopt : deadline_;
    for (const auto& other : {echo_until_, grow_at_}) {
      if (other && (!wake || *other < *wake)) wake = other;
    }
    if (poll(polled.data(), polled.size(), wake ? milliseconds_until(*wake) : -1) <= 0) return;
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
      if (number == SIGHUP) return;
      say("killing the ranks\n");
      kill_all();
      return;
    }
    interrupted_by_ = number;
    grow_at_.reset();
    signal_all(number);
    signal_all(SIGCONT);  // a rank that is stopped would not hear of it
    for (const auto& rank : ranks_) {
      if (rank->status() && is_needed(*rank)) start_deadline();
    }
  }

  // Before the ranks have met, none can do without another.
  bool is_needed(const RankProcess& rank) const {
    return launch_.needed_ranks == 0 || rank.rank() < launch_.needed_ranks ||
           !Recorder(recorder_.bytes(), -1, count_).any_started();
  }

  bool needed_have_ended() const {
    return launch_.needed_ranks > 0 && std::ranges::all_of(ranks_, [this](const auto& rank) {
             return rank->status() || rank->rank() >= launch_.needed_ranks;
           });
  }

  void start_deadline() {
    grow_at_.reset();
    if (!deadline_) deadline_ = Clock::now() + clock_duration(grace_seconds(launch_.timeout_seconds));
  }
  // Whether ranks failed, but only by what they noticed of others.
  bool only_echoes() const { return launch_.elastic && has_echo_ && !has_cause_; }

  // A rank that does not listen yet is asked again.
  void ask_for_room() {
    if (!asked_) say(fmt::format("starts all {} ranks again after the step at hand\n", launch_.ranks));
    asked_ = true;
    signal_all(SIGUSR1);
    grow_at_ = Clock::now() + clock_duration(1);
  }
  void note_loss() {
    if (lost_at_ == 0) lost_at_ = seconds_since_1970();
  }

  void ended(RankProcess& rank) {
    for (RankProcess::Stream& stream : rank.streams())
      RankProcess::finish(stream);  // its last words come before ours
    const bool told = hear(rank);
    const int status = *rank.status();
    const bool signalled = WIFSIGNALED(status);
    const int code = signalled ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    const bool needed = is_needed(rank);
    if (needed_have_ended() || (needed && (code != 0 || interrupted_by_ != 0))) start_deadline();
    if (code == 0) return;
    if (!needed) {
      if (exit_code_ == 0 && interrupted_by_ == 0 && !killed_)
        say(fmt::format("rank {} {}; the others go on\n", rank.rank(), how_it_ended(status)));
      return;
    }
    const bool first = exit_code_ == 0;
    const bool by_itself = !killed_ && interrupted_by_ == 0;
    // A rank that a signal killed is the cause, though others may have noticed and ended a moment earlier.
    if (first || (signalled && by_itself && dead_.empty())) exit_code_ = code;
    if (!by_itself) return;
    note_loss();
    if (code == 128 + SIGPIPE) return kill_all();  // nobody reads its output, nor ours
    const std::string how = how_it_ended(status);
    if (!told) say(fmt::format("rank {} {}\n", rank.rank(), how));
    if (!told && !signalled) has_cause_ = true;
    if (!signalled) return;
    dead_[rank.rank()] = how;
    if (!launch_.elastic) return;
    echo_.clear();
    kill_all();
  }

  // Says why the rank ended, where it told us and no other rank told the same. An echo waits until it is
  // clear that no cause follows. False where the rank told nothing.
  bool hear(const RankProcess& rank) {
    const LastWords words = rank.last_words();
    if (words.text.empty()) return false;
    if (words.kind == LastWords::Kind::again) makes_room_ = true;
    if (words.kind == LastWords::Kind::order || words.kind == LastWords::Kind::again) return true;
    const std::string line = fmt::format("[rank {}] {}\n", rank.rank(), words.text);
    if (words.kind == LastWords::Kind::cause) {
      if (said_.insert(words.text).second) print(line);
      has_cause_ = true;
      echo_.clear();
    } else {
      has_echo_ = true;
      if (!heard_) echo_ = line;
    }
    if (!heard_) echo_until_ = Clock::now() + kEchoWaits;
    heard_ = true;
    return true;
  }

  void say_echo() {
    if (!echo_.empty()) print(echo_);
    echo_.clear();
    echo_until_.reset();
    if (!deadline_) heard_ = false;  // the others go on, and what ends them is another matter
  }

  void kill_late() {
    std::vector<std::string> late;
    for (const auto& rank : ranks_) {
      if (rank->status()) continue;
      late.push_back(std::to_string(rank->rank()));
      stuck_.push_back(rank->rank());
    }
    say_echo();
    say(fmt::format("rank {} did not end within {:g} s after {}: killed\n", trireme::join(late, ", "),
                    grace_seconds(launch_.timeout_seconds),
                    interrupted_by_ != 0 || needed_have_ended() ? "the others" : "that"));
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

  static void print(const std::string& lines) {
    trireme::say(stderr, "{}{}", line_start(STDERR_FILENO), lines);
  }
  const LocalLaunch& launch_;
  const int count_;  // ranks, of those that the launch may have
  const std::optional<StartedAgain> again_;
  RecorderMemory recorder_;
  Signals& signals_;
  std::vector<std::unique_ptr<RankProcess>> ranks_;
  std::optional<Clock::time_point> deadline_;  // for those that are left, since a rank ended
  std::set<std::string> said_;                 // causes that ranks told
  bool heard_ = false;                         // a cause, or an echo of it
  std::string echo_;                           // to be said at this time, unless a cause is before
  std::optional<Clock::time_point> echo_until_;
  int interrupted_by_ = 0;
  bool killed_ = false;
  bool killed_late_ = false;
  bool has_cause_ = false;   // a rank failed by itself
  bool has_echo_ = false;    // a rank failed because of another
  bool makes_room_ = false;  // the ranks ended because they were asked to, to be started again
  bool asked_ = false;
  std::optional<Clock::time_point> grow_at_;  // when they are asked
  double lost_at_ = 0;                        // seconds since 1970; 0: nothing was lost
  std::vector<int> stuck_;
  std::map<int, std::string> dead_;  // ranks that a signal killed, none of ours
  int exit_code_ = 0;
};

// 0: none.
int most_that_fit(const ElasticRanks& elastic, int left) {
  for (int ranks = left; ranks >= elastic.fewest; --ranks) {
    if (!elastic.fits || elastic.fits(ranks)) return ranks;
  }
  return 0;
}

}  // namespace

double grace_seconds(double timeout_seconds) {
  return 1 + std::min(timeout_seconds, 10.0);
}

int launch_local(const LocalLaunch& launch) {
  Signals signals;  // of all starts, so that none comes in between
  Restarts restarts(launch.restarts);
  int count = launch.ranks;
  std::optional<StartedAgain> again;
  for (;;) {
    const Clock::time_point begin = Clock::now();
    Ranks ranks(launch, count, again, signals);
    const int code = ranks.run();
    if (ranks.made_room()) {
      if (ranks.interrupted_by() != 0) return 128 + ranks.interrupted_by();
      again = {seconds_since_1970(), fmt::format("there was room for {} ranks again", launch.ranks)};
      count = launch.ranks;
      continue;
    }
    if (!ranks.lost_a_rank()) return code;
    again = ranks.loss();
    if (launch.elastic) {
      const int left = count - ranks.lost();
      if (const int fewer = most_that_fit(*launch.elastic, left)) {
        Ranks::say(fmt::format("goes on with {} of {} ranks\n", fewer, launch.ranks));
        count = fewer;
        continue;
      }
      Ranks::say(left < launch.elastic->fewest
                     ? fmt::format("{} of {} ranks are left, and --elastic {}:{} needs {}\n", left,
                                   launch.ranks, launch.elastic->fewest, launch.elastic->most,
                                   launch.elastic->fewest)
                     : fmt::format("the plan does not fit {} to {} ranks\n", launch.elastic->fewest, left));
    }
    const std::optional<Restarts::Seconds> wait = restarts.next(Clock::now() - begin);
    if (!wait) return code;
    count = launch.ranks;
    Ranks::say(fmt::format("starts all ranks again in {:g} s (restart {} of {})\n", wait->count(),
                           restarts.count(), restarts.most()));
    if (ranks.is_interrupted_within(*wait)) return code;
  }
}

}  // namespace trireme::comm
