// See child.h.
#include "trireme/chaos/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "trireme/base/error.h"

extern char** environ;

namespace trireme::chaos {
namespace {

constexpr size_t kMostLines = 100'000;

// Set by launchers, and by us for other jobs.
bool is_of_a_launcher(std::string_view variable) {
  for (const std::string_view start : {"TRIREME_", "OMPI_", "PMI", "SLURM_", "RANK=", "WORLD_SIZE=",
                                       "LOCAL_RANK=", "MASTER_ADDR=", "MASTER_PORT="}) {
    if (variable.starts_with(start)) return true;
  }
  return false;
}

bool is_step(const std::string& line) {
  constexpr std::string_view kStep = "step ";
  return line.starts_with(kStep) && line.find('/') < std::min(line.find(' ', kStep.size()), line.size());
}

std::vector<std::string> environment_with(const std::map<std::string, std::string>& variables) {
  std::vector<std::string> result;
  for (const auto& [name, value] : variables) result.push_back(name + "=" + value);
  for (char** one = environ; *one != nullptr; ++one) {
    if (!is_of_a_launcher(*one)) result.emplace_back(*one);
  }
  return result;
}

std::vector<char*> argument_pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

}  // namespace

Child::Child(const std::vector<std::string>& command, const std::map<std::string, std::string>& variables,
             SystemCalls* calls) {
  const std::vector<std::string> environment = environment_with(variables);
  const std::vector<char*> arguments = argument_pointers(command);
  const std::vector<char*> all_variables = argument_pointers(environment);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw_error("no pipe for a job's output: {}", std::strerror(errno));
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    setpgid(0, 0);  // a Ctrl-C is for us
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    if (calls && !calls->enter()) _exit(127);
    execvpe(arguments[0], arguments.data(), all_variables.data());
    _exit(127);
  }
  const int error = errno;
  close(ends[1]);
  output_ = ends[0];
  fcntl(output_, F_SETFL, O_NONBLOCK);
  if (pid_ < 0) {
    close(output_);
    throw_error("a job could not be started: {}", std::strerror(error));
  }
  if (calls) calls->begin();
}

Child::~Child() {
  kill();
  if (output_ >= 0) close(output_);
}

void Child::kill() {
  if (exit_code_) return;
  ::kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  exit_code_ = 128 + SIGKILL;
  ended_at_ = Clock::now();
}

void Child::take(const char* bytes, size_t size) {
  begun_.append(bytes, size);
  const Clock::time_point now = Clock::now();
  size_t begin = 0;
  for (size_t end; (end = begun_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    lines_.push_back({now, begun_.substr(begin, end - begin)});
    lines_.back().is_step = is_step(lines_.back().text);
    steps_ += lines_.back().is_step;
  }
  begun_.erase(0, begin);
  if (lines_.size() > kMostLines) forget_old_steps();
}

void Child::forget_old_steps() {
  const auto middle = lines_.begin() + std::ssize(lines_) / 2;
  lines_.erase(std::remove_if(lines_.begin(), middle, [](const Line& line) { return line.is_step; }), middle);
}

void Child::look() {
  std::array<char, 65536> bytes;
  // Asked first, so that all of its output is read when it has ended.
  int status = 0;
  const bool ends = !exit_code_ && waitpid(pid_, &status, WNOHANG) == pid_;
  while (output_ >= 0) {
    const ssize_t got = read(output_, bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got > 0) {
      take(bytes.data(), static_cast<size_t>(got));
      continue;
    }
    close(output_);
    output_ = -1;
  }
  if (!ends) return;
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  ended_at_ = Clock::now();
}

}  // namespace trireme::chaos
