// See agenda.h.
#include "trireme/sim/agenda.h"

#include <algorithm>
#include <numeric>

#include "trireme/base/error.h"

namespace trireme::sim {
namespace {

using enum When::Kind;

// Steps of an asynchronous pipeline overlap: one of them is what those after the first few take, on average.
constexpr int64_t kStepsToFill = 4, kStepsOverlapping = 8;
constexpr int64_t kLongestPeriod = 100'000;

int64_t last_early_step(const Track& track) {
  int64_t last = 0;
  for (const TrackList& list : track.lists) {
    if (list.when.kind == kUntil) last = std::max(last, list.when.steps);
  }
  return last;
}

// As Program::step_list().
int step_list(const Track& track, int64_t step) {
  int found = -1;
  for (int i = 0; i < static_cast<int>(track.lists.size()); ++i) {
    const When& when = track.lists[i].when;
    if (when.kind == kUntil && when.steps >= step &&
        (found < 0 || when.steps < track.lists[found].when.steps))
      found = i;
  }
  return found < 0 ? track.list(When::step()) : found;
}

}  // namespace

Window window_of(const Track& track) {
  Window window{.from = last_early_step(track)};
  if (track.list(When::fill()) >= 0) return {window.from, kStepsToFill, kStepsOverlapping};
  int64_t begun = 0;
  for (const TrackList& list : track.lists) {
    if (list.when.kind != kEvery) continue;
    window.steps = std::lcm(window.steps, list.when.steps);
    begun = std::max(begun, list.when.first);
    if (window.steps > kLongestPeriod)
      throw_error("the plan's ranks agree every {} steps; the clock follows at most {} of them", window.steps,
                  kLongestPeriod);
  }
  window.before = (begun + window.steps - 1) / window.steps * window.steps;
  return window;
}

std::vector<Window> early_windows(const Track& track) {
  std::vector<Window> windows;
  for (const TrackList& list : track.lists) {
    if (list.when.kind == kUntil) windows.push_back({.from = list.when.steps - 1});
  }
  std::ranges::sort(windows, {}, &Window::from);
  return windows;
}

LockstepAgenda::LockstepAgenda(const Track& track, const Window& window, Idle idle)
    : track_(track),
      step_(window.from),
      last_(window.from + window.before + window.steps),
      idle_(std::move(idle)) {
  if (const int fill = track.list(When::fill()); fill >= 0) items_.push_back({AgendaItem::Kind::kList, fill});
}

AgendaItem LockstepAgenda::next(Inbox&) {
  if (place_ < items_.size()) return items_[place_++];
  if (step_ == last_) return {AgendaItem::Kind::kEnd};
  ++step_;
  place_ = 0;
  items_.clear();
  if (!idle_ || !idle_(step_)) items_.push_back({AgendaItem::Kind::kList, step_list(track_, step_)});
  for (int i = 0; i < static_cast<int>(track_.lists.size()); ++i) {
    if (track_.lists[i].when.is_due_after(step_)) items_.push_back({AgendaItem::Kind::kList, i});
  }
  items_.push_back({AgendaItem::Kind::kStepEnd});
  return items_[place_++];
}

}  // namespace trireme::sim
