// See step_timeline.h.
#include "trireme/run/step_timeline.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/run/run_folder.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using TimelineJson = nlohmann::ordered_json;

constexpr int kTimelineFormat = 1;
constexpr size_t kMostEvents = 4000;  // of a rank; some 500 KB

// In whole nanoseconds: what is behind them is not known, and takes most of the file.
double whole_nanoseconds(double seconds) {
  return std::round(seconds * 1e9) / 1e9;
}

TimelineJson event_json(const TraceEvent& event) {
  const bool computes = event.track == TraceEvent::Track::kCompute;
  TimelineJson object{{"name", event.name},
                      {"kind", name(event.kind)},
                      {"track", computes ? "compute" : "communication"},
                      {"begin", whole_nanoseconds(event.begin)},
                      {"end", whole_nanoseconds(event.end)}};
  if (event.bytes >= 0) object["bytes"] = event.bytes;
  if (event.microbatch >= 0) object["microbatch"] = event.microbatch;
  return object;
}

TimelineJson rank_json(const StepTimeline::Rank& rank) {
  std::vector<TraceEvent> events(rank.events.begin(), rank.events.end());
  std::ranges::stable_sort(events, {}, &TraceEvent::begin);
  const size_t kept = std::min(kMostEvents, events.size());
  TimelineJson all = TimelineJson::array();
  for (size_t i = 0; i < kept; ++i) all.push_back(event_json(events[i]));
  TimelineJson object{{"rank", rank.rank}, {"events", std::move(all)}};
  if (rank.stands_for > 1) object["stands_for"] = rank.stands_for;
  if (kept < events.size()) object["left_out"] = events.size() - kept;
  return object;
}

}  // namespace

std::string timeline_json(const StepTimeline& timeline) {
  TimelineJson ranks = TimelineJson::array();
  for (const StepTimeline::Rank& rank : timeline.ranks) ranks.push_back(rank_json(rank));
  TimelineJson object{{"format", kTimelineFormat}};
  if (timeline.step > 0) object["step"] = timeline.step;
  object["begin"] = whole_nanoseconds(timeline.begin);
  object["seconds"] = whole_nanoseconds(timeline.seconds);
  object["ranks"] = std::move(ranks);
  return object.dump(-1, ' ', false, TimelineJson::error_handler_t::replace) + "\n";
}

std::string timeline_json(const sim::SimReport& report) {
  StepTimeline timeline{.seconds = report.step_seconds * static_cast<double>(report.steps), .ranks = {}};
  for (const sim::RankReport& rank : report.ranks)
    timeline.ranks.push_back({rank.rank, rank.stands_for, rank.time.events});
  return timeline_json(timeline);
}

void write_simulated_timeline(const std::string& folder, const std::string& json) {
  const fs::path path = fs::path(folder) / kTimelineFolder / kSimulatedTimeline;
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  replace_file(path.string(), json);
}

// The trace is again as it was before the step.
void StepRecorder::pause() {
  if (under_way_) trace_->record(was_recording_);
  under_way_ = false;
}

void StepRecorder::begin(int64_t step) {
  pause();  // after a step that failed
  if (!records(step)) return;
  under_way_ = true;
  was_recording_ = trace_->is_recording();
  trace_->record(true);
  first_ = trace_->events().size();
  begin_ = trace_->now();
}

void StepRecorder::end(int64_t step, const std::string& folder) {
  if (!records(step)) return;
  const double end = trace_->now();
  pause();
  const std::span<const TraceEvent> events = std::span(trace_->events()).subspan(first_);
  const fs::path path = fs::path(folder) / kTimelineFolder / fmt::format("{}.json", rank_);
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  try {
    replace_file(path.string(), timeline_json({step, begin_, end - begin_, {{rank_, 1, events}}}));
  } catch (const Error&) {
  }
}

}  // namespace trireme
