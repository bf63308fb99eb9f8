// What ranks did and when, as a file that Perfetto (ui.perfetto.dev) and chrome://tracing open: a process for
// each rank, a track for what it computes, tracks for its communication, and arrows from each message's
// sender to its receiver.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

struct TraceEvent {
  enum class Track { kCompute, kCommunication };
  enum class Arrow { kNone, kLeaves, kArrives };
  // What its time goes into. kWeight: backward for weights, where that is a phase of its own. kGradients:
  // forward and backward in one. kStep: all of the others together. kOffload: states that rest elsewhere come
  // or go.
  enum class Kind {
    kStep,
    kForward,
    kBackward,
    kWeight,
    kGradients,
    kUpdate,
    kCollective,
    kMessage,
    kOffload,
    kWait
  };

  std::string name;
  Kind kind = Kind::kStep;
  Track track = Track::kCompute;
  double begin = 0, end = 0;            // seconds from the trace's zero
  int64_t bytes = -1, microbatch = -1;  // −1: it has none
  Arrow arrow = Arrow::kNone;
  int64_t message = 0;  // of an arrow: the same number on both ends, and on no other
};

// "forward", as files say it.
std::string_view name(TraceEvent::Kind kind);

// One rank's, in the order in which they ended.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kRoom = 200'000;  // some 20 MB; what comes later is left out

  // A paused one notes nothing down until it is told to: whoever would add to it asks is_recording() first.
  enum class Begins { kRecording, kPaused };
  explicit Trace(Clock::time_point zero = Clock::now(), Begins begins = Begins::kRecording)
      : zero_(zero), recording_(begins == Begins::kRecording) {}

  bool is_recording() const { return recording_; }
  void record(bool recording) { recording_ = recording; }
  double now() const { return std::chrono::duration<double>(Clock::now() - zero_).count(); }
  void add(TraceEvent event) {
    if (recording_ && events_.size() < kRoom) events_.push_back(std::move(event));
  }
  bool full() const { return events_.size() == kRoom; }
  const std::vector<TraceEvent>& events() const { return events_; }

 private:
  Clock::time_point zero_;
  bool recording_;
  std::vector<TraceEvent> events_;
};

// One rank's part of the file. What overlaps without being inside one another gets tracks of its own.
std::string trace_part(int rank, std::string_view title, std::vector<TraceEvent> events);
// The file, of all ranks' parts.
std::string trace_file(std::span<const std::string> parts);

}  // namespace trireme
