// See rank_process.h.
#include "trireme/comm/launch/rank_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "trireme/base/error.h"
#include "trireme/comm/launch/core_share.h"

namespace trireme::comm {
namespace {

constexpr size_t kPipeBytes = 64 * 1024;  // what a pipe of Linux holds

struct Pipe {
  int read = -1;
  int write = -1;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    throw_error("no pipe for the output of a rank: {}; is the limit of open files (ulimit -n) too low?",
                std::strerror(errno));
  return {ends[0], ends[1]};
}

void write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return;  // nobody reads: nothing to be done about it
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

void write_lines(int descriptor, const std::string& lines) {
  if (!lines.empty()) write_all(descriptor, std::string(line_start(descriptor)) + lines);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// In the child. Whatever fails here is written to `failure`, which closes when the program runs.
void become(const RankSetup& setup, pid_t launcher, int output, int errors, int failure) {
  const auto give_up = [failure](const char* what) {
    const int code = errno;
    write_all(failure, fmt::format("{}: {}", what, std::strerror(code)));
    _exit(127);
  };
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) give_up("prctl");
  if (getppid() != launcher) _exit(127);  // it died before it could be watched
  if (!setup.processors.empty() && !bind_to(setup.processors)) give_up("sched_setaffinity (--bind none)");
  if (setpgid(0, setup.process_group) != 0) give_up("setpgid");
  // What the launcher blocks to read by descriptor is as it should be for the rank.
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGUSR1, SIG_IGN);  // until the rank listens to what the launcher asks by it

  const int empty = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (empty < 0 || dup2(empty, STDIN_FILENO) < 0) give_up("/dev/null");
  if (output >= 0 && dup2(output, STDOUT_FILENO) < 0) give_up("dup2");
  if (dup2(errors, STDERR_FILENO) < 0) give_up("dup2");
  for (int descriptor : setup.inherited) {
    if (fcntl(descriptor, F_SETFD, 0) != 0) give_up("an inherited descriptor");
  }
  execve(setup.executable.c_str(), pointers(setup.arguments).data(), pointers(setup.environment).data());
  give_up(setup.executable.c_str());
}

}  // namespace

RankProcess::RankProcess(const RankSetup& given) : rank_(given.rank) {
  // Rank 0 writes to the launcher's standard output itself: its progress bar sees the terminal.
  const Pipe output = rank_ == 0 ? Pipe{} : make_pipe();
  const Pipe errors = make_pipe();
  const Pipe failure = make_pipe();
  const Pipe words = make_pipe();
  RankSetup setup = given;
  setup.inherited.push_back(words.write);
  setup.environment.push_back(fmt::format("{}={}", kLastWordsVariable, words.write));
  const pid_t launcher = getpid();
  pid_ = fork();
  if (pid_ == 0) become(setup, launcher, output.write, errors.write, failure.write);
  const int fork_error = errno;
  const std::string tag = fmt::format("[rank {}] ", rank_);
  if (output.read >= 0) {
    close(output.write);
    streams_.push_back({output.read, STDOUT_FILENO, LineTagger(tag)});
  }
  close(errors.write);
  streams_.push_back({errors.read, STDERR_FILENO, LineTagger(tag)});
  close(words.write);
  words_ = words.read;
  fcntl(words_, F_SETFL, O_NONBLOCK);
  for (const Stream& stream : streams_) fcntl(stream.descriptor, F_SETFL, O_NONBLOCK);
  close(failure.write);
  std::array<char, 256> text{};
  const ssize_t size = pid_ > 0 ? read(failure.read, text.data(), text.size()) : 0;
  close(failure.read);
  if (pid_ > 0 && size <= 0) return;

  if (pid_ > 0) waitpid(pid_, nullptr, 0);
  for (const Stream& stream : streams_) close(stream.descriptor);
  close(words_);
  throw_error(
      "rank {} could not be started: {}", rank_,
      pid_ < 0 ? fmt::format("{}; is the limit of processes (ulimit -u) too low?", std::strerror(fork_error))
               : std::string(text.data(), static_cast<size_t>(size)));
}

RankProcess::~RankProcess() {
  for (Stream& stream : streams_) {
    if (stream.descriptor >= 0) close(stream.descriptor);
  }
  close(words_);
}

std::string_view line_start(int descriptor) {
  const char* const term = std::getenv("TERM");
  const bool draws = isatty(STDOUT_FILENO) && term && std::string_view(term) != "dumb";
  return draws && isatty(descriptor) ? "\r\x1b[K" : "";
}

bool RankProcess::reap() {
  int status = 0;
  if (status_ || waitpid(pid_, &status, WNOHANG) != pid_) return false;
  status_ = status;
  return true;
}

void RankProcess::pass_on(Stream& stream) {
  std::array<char, kPipeBytes> bytes;
  while (stream.descriptor >= 0) {
    const ssize_t size = read(stream.descriptor, bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && errno == EAGAIN) return;
    if (size <= 0) return finish(stream);
    write_lines(stream.to, stream.tagger.feed({bytes.data(), static_cast<size_t>(size)}));
    return;
  }
}

void RankProcess::finish(Stream& stream) {
  if (stream.descriptor < 0) return;
  std::array<char, kPipeBytes> bytes;
  const ssize_t size = read(stream.descriptor, bytes.data(), bytes.size());
  if (size > 0) write_lines(stream.to, stream.tagger.feed({bytes.data(), static_cast<size_t>(size)}));
  write_lines(stream.to, stream.tagger.finish());
  close(stream.descriptor);
  stream.descriptor = -1;
}

}  // namespace trireme::comm
