// The Trace Event Format's JSON: complete events (X), names (M) and flows (s, f); times in microseconds.
#include "trireme/base/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace trireme {
namespace {

std::string json_text(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < ' ' ? '?' : c;
  }
  return result + '"';
}

// In whole nanoseconds, which is what the file has. Both ends of an event are rounded, never its duration, so
// that what follows another event without a gap does not begin before that event's end.
double microseconds(double seconds) {
  return std::round(1e9 * seconds) / 1e3;
}

// The number of a track for each event of kCommunication, which must not overlap on one: the first that is
// free.
class Lanes {
 public:
  int lane_of(const TraceEvent& event) {
    const auto free = std::ranges::find_if(busy_until_, [&](double end) { return end <= event.begin; });
    const int lane = static_cast<int>(free - busy_until_.begin());
    if (free == busy_until_.end()) busy_until_.push_back(0);
    busy_until_[lane] = event.end;
    return lane;
  }
  int count() const { return static_cast<int>(busy_until_.size()); }

 private:
  std::vector<double> busy_until_;
};

}  // namespace

std::string_view name(TraceEvent::Kind kind) {
  constexpr std::string_view kNames[] = {"step",   "forward",    "backward", "weight",  "gradients",
                                         "update", "collective", "message",  "offload", "wait"};
  return kNames[static_cast<size_t>(kind)];
}

std::string trace_part(int rank, std::string_view title, std::vector<TraceEvent> events) {
  // What begins together is written from the outside in: viewers put the later one into the earlier.
  std::ranges::stable_sort(events, {},
                           [](const TraceEvent& event) { return std::pair(event.begin, -event.end); });
  Lanes lanes;
  std::string text;
  auto out = std::back_inserter(text);
  const auto meta = [&](std::string_view what, int track, std::string_view called) {
    fmt::format_to(out,
                   R"({{"ph":"M","pid":{},"tid":{},"name":"{}","args":{{"name":{}}}}},)"
                   "\n",
                   rank, track, what, json_text(called));
  };
  meta("process_name", 0, title);
  meta("thread_name", 0, "compute");
  for (const TraceEvent& event : events) {
    const int track = event.track == TraceEvent::Track::kCompute ? 0 : 1 + lanes.lane_of(event);
    const double begin = microseconds(event.begin), end = microseconds(event.end);
    std::string told;
    if (event.bytes >= 0) told += fmt::format(R"("bytes":{})", event.bytes);
    if (event.microbatch >= 0)
      told += fmt::format(R"({}"microbatch":{})", told.empty() ? "" : ",", event.microbatch);
    fmt::format_to(
        out,
        R"({{"ph":"X","cat":"{}","pid":{},"tid":{},"ts":{:.3f},"dur":{:.3f},"name":{},"args":{{{}}}}},)"
        "\n",
        name(event.kind), rank, track, begin, end - begin, json_text(event.name), told);
    if (event.arrow == TraceEvent::Arrow::kNone) continue;
    const bool leaves = event.arrow == TraceEvent::Arrow::kLeaves;
    fmt::format_to(
        out,
        R"({{"ph":"{}","pid":{},"tid":{},"ts":{:.3f},"id":{},"cat":"message","name":"message"{}}},)"
        "\n",
        leaves ? "s" : "f", rank, track, leaves ? begin : end, event.message, leaves ? "" : R"(,"bp":"e")");
  }
  for (int lane = 0; lane < lanes.count(); ++lane)
    meta("thread_name", 1 + lane, lane == 0 ? "communication" : fmt::format("communication {}", lane + 1));
  text.resize(text.size() - 2);  // the last comma
  return text;
}

std::string trace_file(std::span<const std::string> parts) {
  return fmt::format("{{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n{}\n]}}\n", fmt::join(parts, ",\n"));
}

}  // namespace trireme
