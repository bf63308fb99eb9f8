// Track: a rank's program as the clock sees it: how long its work takes between the points at which it meets
// other ranks. Made from its Program once; ranks whose tracks are equal take equal time wherever they stand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/base/trace.h"
#include "trireme/ir/collective.h"
#include "trireme/mesh/cluster.h"
#include "trireme/program/program.h"
#include "trireme/sim/collective_time.h"

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
  Parts parts = Parts::kEqual;

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
  int segment = -1;        // of a run
  int64_t microbatch = 0;  // likewise
  // Of a message: the peer has this coordinate along this axis, and this rank's own along all others.
  int axis = 0, place = 0;
  double bytes = 0;                                // likewise, and of what is fetched or stored
  std::vector<int> waits = {}, waits_behind = {};  // actions of the list whose messages must be through
  // Of states that rest elsewhere: the staging slot that a group is fetched to or stored from; of a run,
  // those that it works on.
  std::vector<int> staging = {};
  int meeting = -1;  // of a sum that is begun, in Track::meetings
  int sum = -1;      // likewise, and of one that is awaited: the same number for both

  friend bool operator==(const TrackAction&, const TrackAction&) = default;
};

// The actions of lists that steps have no use for (an evaluation, a meeting) are left out.
struct TrackList {
  std::string name;
  When when;
  std::vector<TrackAction> actions;

  friend bool operator==(const TrackList&, const TrackList&) = default;
};

struct Track {
  std::vector<std::vector<Item>> segments;
  std::vector<std::string> names;       // of the segments
  std::vector<TraceEvent::Kind> kinds;  // likewise
  std::vector<Meeting> meetings;
  std::vector<TrackList> lists;  // those of the program, in its order

  int list(const When& when) const;  // the first such; −1 where there is none
  friend bool operator==(const Track&, const Track&) = default;
};

// Whether a device works on while what it has started is under way. Without, it waits for each collective and
// for each message that it sends at once, as systems do that have one stream.
enum class Overlap { kAsPlanned, kNone };

// Throws Error for what the clock can not time.
Track track_of(const Program& program, const DeviceClass& device, Overlap overlap = Overlap::kAsPlanned);

}  // namespace trireme::sim
