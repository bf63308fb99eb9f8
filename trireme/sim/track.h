// Track: a rank's step as the clock sees it: how long its work takes between the points at which it meets
// other ranks. Made from its Program once; ranks whose tracks are equal take equal time wherever they stand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/ir/collective.h"
#include "trireme/mesh/cluster.h"
#include "trireme/program/program.h"

namespace trireme::sim {

// Nodes between two meetings. The host gives them to the device one after another, and the device does them
// in order: with the host at h and the device at d before, the device is at max(d + seconds, h + from_issue)
// after.
struct Work {
  double seconds = 0;     // on the device
  double from_issue = 0;  // from when the host begins until the device ends, if the device has waited
  double issue_seconds = 0;
  double flops = 0;

  void add(double node_seconds, double node_flops, double node_issue_seconds);
  friend bool operator==(const Work&, const Work&) = default;
};

// A collective that is started: one or several calls of the transport.
struct Meeting {
  CollectiveKind kind{};
  int axis = 0;
  std::vector<double> calls;  // bytes of each call's vector; see CollectiveTimes::seconds
  double bytes_sent = 0;      // by this rank in all of them, as the program promises

  friend bool operator==(const Meeting&, const Meeting&) = default;
};

struct Item {
  enum class Kind { kWork, kStart, kWait } kind = Kind::kWork;
  Work work = {};
  int meeting = -1;  // of a start, in Track::meetings
  int start = -1;    // of a wait: the item that started it
  enum class Beside {
    kNothing,
    kWork
  } beside = Beside::kNothing;  // whether work goes on between start and wait

  friend bool operator==(const Item&, const Item&) = default;
};

struct TrackAction {
  Action::Kind kind = Action::Kind::kRun;
  int segment = -1;                                // of a run
  int64_t microbatch = 0;                          // likewise
  int stage = 0;                                   // of a message: the peer's
  double bytes = 0;                                // likewise, and of what is fetched or stored
  std::vector<int> waits = {}, waits_behind = {};  // actions whose messages must be through
  // Of states that rest elsewhere: the staging slot that a group is fetched to or stored from; of a run,
  // those that it works on.
  std::vector<int> staging = {};

  friend bool operator==(const TrackAction&, const TrackAction&) = default;
};

struct Track {
  std::vector<std::vector<Item>> segments;
  std::vector<std::string> names;  // of the segments
  std::vector<Meeting> meetings;
  std::vector<TrackAction> actions;  // of a step, or of several

  friend bool operator==(const Track&, const Track&) = default;
};

// What a collective's node gives to the transport: bytes of the vector of each call.
std::vector<double> call_bytes(const Segment& segment, int node);

// An asynchronous pipeline is filled first; its steps overlap, so that one of them by itself says little.
bool is_asynchronous(const Program& program);
Track track_of(const Program& program, const DeviceClass& device, int steps = 1);

}  // namespace trireme::sim
