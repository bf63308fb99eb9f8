// See sweep.h. Children write their result and what they say on stderr into files without a name, so that
// nobody has to read along for them to go on.
#include "trireme/run/sweep.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <list>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme::parity {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kNames[kOutcomes] = {"equal",  "rounding", "refused", "bug",
                                                "failed", "aborted",  "hung"};

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

File nameless_file() {
  std::FILE* file = std::tmpfile();
  if (!file) throw_error("no temporary file can be made: {}", std::strerror(errno));
  return File(file);
}

std::string content_of(const File& file) {
  std::string text;
  std::rewind(file.get());
  char buffer[4096];
  while (const size_t count = std::fread(buffer, 1, sizeof buffer, file.get())) text.append(buffer, count);
  return text;
}

Outcome outcome_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kEqual:
      return Outcome::kEqual;
    case Verdict::kRounding:
      return Outcome::kRounding;
    case Verdict::kBug:
      return Outcome::kBug;
    case Verdict::kRefused:
      return Outcome::kRefused;
  }
  TRIREME_CHECK(false);
  return Outcome::kAborted;
}

// In the child. One line: outcome, share of what rounding may do; then the reason.
void write_result(const RandomCase& drawn, const CaseRunner& run, std::FILE* file) {
  Outcome outcome = Outcome::kFailed;
  double worst = 0;
  std::string reason;
  try {
    const Result result = run(drawn);
    outcome = outcome_of(result.verdict);
    reason = result.reason;
    worst = result.worst;
  } catch (const Error& error) {
    reason = error.what();
  }
  fmt::print(file, "{} {}\n{}", static_cast<int>(outcome), worst, reason);
  std::fflush(file);
}

// A case that is being run.
struct Running {
  SweepResult result;
  pid_t process = -1;
  Clock::time_point deadline;
  File written, said;
};

Running start(uint64_t number, RandomCase drawn, double seconds, const CaseRunner& run) {
  Running running{
      {number, std::move(drawn)},
      -1,
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)),
      nameless_file(),
      nameless_file()};
  std::fflush(nullptr);
  running.process = fork();
  if (running.process < 0) throw_error("no process can be started: {}", std::strerror(errno));
  if (running.process == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // a sweep that is killed leaves nothing behind
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(fileno(running.said.get()), STDERR_FILENO);
    write_result(running.result.drawn, run, running.written.get());
    _exit(0);
  }
  return running;
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status))
    return fmt::format("killed by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return fmt::format("ended with code {}", WEXITSTATUS(status));
}

// Whether it has ended; `result` is complete then.
bool poll(Running& running) {
  SweepResult& result = running.result;
  int status = 0;
  if (waitpid(running.process, &status, WNOHANG) == 0) {
    if (Clock::now() < running.deadline) return false;
    kill(running.process, SIGKILL);
    waitpid(running.process, &status, 0);
    result.outcome = Outcome::kHung;
    result.reason = "not done in time; " + content_of(running.said);
    return true;
  }
  const std::string text = content_of(running.written);
  const size_t line = text.find('\n');
  int outcome = 0;
  if (line == text.npos || std::sscanf(text.c_str(), "%d %lf", &outcome, &result.worst) != 2) {
    result.outcome = Outcome::kAborted;
    result.reason = content_of(running.said) + how_it_ended(status);
    return true;
  }
  result.outcome = static_cast<Outcome>(outcome);
  result.reason = text.substr(line + 1);
  return true;
}

void wait_a_little() {
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

}  // namespace

std::string_view name(Outcome outcome) {
  return kNames[static_cast<int>(outcome)];
}

bool is_failure(Outcome outcome) {
  return outcome > Outcome::kRefused;
}

void sweep(const SweepOptions& options, const std::function<void(const SweepResult&)>& report) {
  const auto begin = Clock::now();
  const size_t at_once = options.at_once > 0 ? static_cast<size_t>(options.at_once)
                                             : std::max(1u, std::thread::hardware_concurrency());
  std::list<Running> running;
  uint64_t next = 0;
  const auto time_left = [&] {
    return std::chrono::duration<double>(Clock::now() - begin).count() < options.seconds;
  };
  while (!running.empty() || (next < options.most_cases && time_left())) {
    while (running.size() < at_once && next < options.most_cases && time_left()) {
      running.push_back(
          start(next, draw_case(options.seed, next, options.ranges), options.case_seconds, verify_case));
      ++next;
    }
    const size_t before = running.size();
    std::erase_if(running, [&](Running& one) {
      if (!poll(one)) return false;
      report(one.result);
      return true;
    });
    if (running.size() == before) wait_a_little();
  }
}

SweepResult run_apart(const RandomCase& drawn, double seconds, const CaseRunner& run) {
  Running running = start(0, drawn, seconds, run);
  while (!poll(running)) wait_a_little();
  return running.result;
}

std::string reason_kind(std::string_view reason) {
  std::vector<std::string> words;
  for (const std::string& word : split(std::string(reason), ' ')) {
    // A name of a value has dots or underscores inside; the full stop of a sentence has not.
    const size_t inside = word.empty() ? 0 : word.size() - 1;
    const bool particular = word.find_first_of("0123456789[]{}'\"") != word.npos ||
                            word.substr(0, inside).find_first_of("._") != word.npos;
    if (particular && !words.empty() && words.back() == "…") continue;
    words.push_back(particular ? "…" : word);
  }
  return join(words, " ");
}

}  // namespace trireme::parity
