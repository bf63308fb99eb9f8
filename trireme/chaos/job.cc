// See job.h.
#include "trireme/chaos/job.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <span>

#include "trireme/base/error.h"

namespace trireme::chaos {
namespace {

constexpr int kLookEvery = 1;  // milliseconds, because what is waited for need not be output

// A variable in the environment of a process; "": it has none, or is ending.
std::string variable_of(pid_t process, std::string_view name) {
  std::ifstream variables(fmt::format("/proc/{}/environ", process), std::ios::binary);
  for (std::string one; std::getline(variables, one, '\0');) {
    if (one.starts_with(name) && one.size() > name.size() && one[name.size()] == '=')
      return one.substr(name.size() + 1);
  }
  return "";
}

std::vector<pid_t> children_of(pid_t process) {
  std::vector<pid_t> result;
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process), error)) {
    std::ifstream children(task.path() / "children");
    for (pid_t child; children >> child;) result.push_back(child);
  }
  return result;
}

// The lines that were read at this moment or later.
std::span<const Line> lines_from(const Child& child, Clock::time_point moment) {
  const std::vector<Line>& lines = child.lines();
  return {std::ranges::lower_bound(lines, moment, {}, &Line::at), lines.end()};
}

}  // namespace

Child& Job::start(const std::vector<std::string>& command,
                  const std::map<std::string, std::string>& variables, SystemCalls* calls) {
  return *children_.emplace_back(std::make_unique<Child>(command, variables, calls));
}

void Job::look(int milliseconds) {
  std::vector<pollfd> polled;
  for (const auto& child : children_) {
    if (child->output() >= 0) polled.push_back({child->output(), POLLIN, 0});
  }
  poll(polled.data(), polled.size(), milliseconds);
  for (const auto& child : children_) child->look();
}

bool Job::has_ended() const {
  return std::ranges::all_of(children_, [](const auto& child) { return child->exit_code().has_value(); });
}

void Job::wait_until(std::string_view what, double seconds, const Condition& condition, End end) {
  const Clock::time_point begin = Clock::now();
  for (;;) {
    look(kLookEvery);
    if (condition()) return;
    const bool ended = has_ended();
    if (ended && end == End::kMayCome) return;
    if (ended || seconds_since(begin) > seconds)
      throw_error("{} {}; the job said last:\n{}", ended ? "the job ended without" : "no", what,
                  last_lines(12));
  }
}

void Job::watch_for(double seconds) {
  const Clock::time_point begin = Clock::now();
  while (seconds_since(begin) < seconds) look(kLookEvery);
}

int Job::wait_for_end(double seconds) {
  wait_until("end of the job", seconds, [this] { return has_ended(); });
  for (const auto& child : children_) {
    if (*child->exit_code() != 0) return *child->exit_code();
  }
  return 0;
}

std::map<int, pid_t> Job::rank_processes() {
  std::map<int, pid_t> result;
  if (ranks_ > 1) {  // the children are the ranks
    for (size_t rank = 0; rank < children_.size(); ++rank) {
      if (!children_[rank]->exit_code()) result[static_cast<int>(rank)] = children_[rank]->pid();
    }
    return result;
  }
  for (const pid_t process : children_of(children_.front()->pid())) {
    const std::string number = variable_of(process, "TRIREME_RANK");
    if (number.empty()) continue;
    result[std::stoi(number)] = process;
    seen_processes_.insert(process);
    if (const std::string folder = variable_of(process, "TRIREME_MEMORY"); !folder.empty())
      seen_folders_.insert(folder);
  }
  return result;
}

const Line* Job::find_line(Clock::time_point since,
                           const std::function<bool(const std::string&)>& is_it) const {
  for (const auto& child : children_) {
    for (const Line& line : lines_from(*child, since)) {
      if (!line.is_step && is_it(line.text)) return &line;
    }
  }
  return nullptr;
}

const Line* Job::find_line(Clock::time_point since, std::string_view part) const {
  return find_line(since, [&](const std::string& text) { return text.find(part) != std::string::npos; });
}

int64_t Job::steps() const {
  int64_t count = 0;
  for (const auto& child : children_) count += child->steps();
  return count;
}

Clock::time_point Job::time_of_step_from(Clock::time_point moment) const {
  for (const auto& child : children_) {
    for (const Line& line : lines_from(*child, moment)) {
      if (line.is_step) return line.at;
    }
  }
  return Clock::time_point::max();
}

std::string Job::last_lines(size_t count) const {
  std::string result;
  for (const auto& child : children_) {
    const auto& lines = child->lines();
    for (size_t i = lines.size() - std::min(count, lines.size()); i < lines.size(); ++i)
      result += "  " + lines[i].text + "\n";
  }
  return result;
}

void Job::kill() {
  for (const auto& child : children_) child->kill();
}

}  // namespace trireme::chaos
