// See rank_waits.h.
#include "trireme/dashboard/rank_waits.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace trireme::dashboard {
namespace {

// Of a step, from the lines of all ranks.
struct Meeting {
  double step = 0, least = HUGE_VAL;
  int last = -1, ranks = 0;
};

// Steps that any rank has a line of, ascending.
std::vector<Meeting> meetings_of(const std::map<int, NumberLog>& ranks) {
  std::vector<double> steps;
  for (const auto& [rank, log] : ranks) {
    const std::span<const double> own = log.column("step");
    const size_t before = steps.size();
    std::ranges::copy_if(own, std::back_inserter(steps), [](double step) { return std::isfinite(step); });
    // Logs ascend, as runs write them.
    const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(before);
    if (!std::is_sorted(middle, steps.end())) std::sort(middle, steps.end());
    std::inplace_merge(steps.begin(), middle, steps.end());
    steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  }
  std::vector<Meeting> meetings(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) meetings[i].step = steps[i];
  return meetings;
}

// Calls body(row, meeting, seconds in communication) for each line that has both.
template <typename Body>
void for_each_line(const NumberLog& log, std::vector<Meeting>& meetings, const Body& body) {
  const std::span<const double> steps = log.column("step"), comm = log.column("comm_seconds");
  if (steps.empty() || comm.empty()) return;
  auto at = meetings.begin();
  for (size_t row = 0; row < steps.size(); ++row) {
    if (!std::isfinite(steps[row]) || !std::isfinite(comm[row])) continue;
    if (at == meetings.end() || at->step > steps[row]) at = meetings.begin();
    // The next, or nearly so.
    for (int tries = 0; at != meetings.end() && at->step < steps[row] && tries < 4; ++tries) ++at;
    if (at == meetings.end() || at->step != steps[row])
      at = std::ranges::lower_bound(meetings, steps[row], {}, &Meeting::step);
    body(row, *at, comm[row]);
  }
}

}  // namespace

WaitsOfRanks waits_of(const std::map<int, NumberLog>& ranks, double from, double to) {
  std::vector<Meeting> meetings = meetings_of(ranks);
  for (const auto& [rank, log] : ranks) {
    for_each_line(log, meetings, [number = rank](size_t, Meeting& meeting, double comm) {
      ++meeting.ranks;
      if (comm >= meeting.least) return;
      meeting.least = comm;
      meeting.last = number;
    });
  }
  WaitsOfRanks waits;
  for (const auto& [rank, log] : ranks) {
    RankWaits& own = waits.ranks[rank];
    own.seconds.assign(log.rows(), std::numeric_limits<double>::quiet_NaN());
    for_each_line(log, meetings, [&](size_t row, const Meeting& meeting, double comm) {
      if (meeting.ranks > 1) own.seconds[row] = comm - meeting.least;
    });
  }
  for (const Meeting& meeting : meetings) {
    if (meeting.ranks < 2 || meeting.step < from || meeting.step > to) continue;
    ++waits.rows;
    ++waits.ranks[meeting.last].rows_last;
  }
  return waits;
}

}  // namespace trireme::dashboard
