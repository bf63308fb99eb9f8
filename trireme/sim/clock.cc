// Each rank goes on until it needs what is not known yet; whoever makes it known wakes it. Every time is the
// maximum and the sum of times before it, so that the order in which ranks are looked at decides nothing.
#include "trireme/sim/clock.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>

#include "trireme/base/error.h"
#include "trireme/base/rng.h"

namespace trireme::sim {
namespace {

// One collective of a group.
struct Gathering {
  int missing = 0;
  double ready_seconds = 0;
  double begin_seconds = 0, end_seconds = -1;
  std::vector<int> waiting = {};  // runners

  bool is_known() const { return end_seconds >= 0; }
};

struct Group {
  int runners = 0;
  int group_class = 0;
  std::deque<Gathering> gatherings = {};
  size_t known = 0;  // of them, from the first on
};

// Messages from one runner to another, in order.
struct Lane {
  struct Message {
    double sent_seconds, arrives_seconds;
  };
  Path path;
  int64_t number = 0;  // among all lanes
  double free_seconds = 0;
  std::deque<Message> messages = {};
  std::vector<int> waiting = {};
};

struct MeetingCost {
  double seconds = 0;
  PerReach bytes = {};
};

struct State {
  const std::vector<MeetingCost>* costs = nullptr;  // by meeting of its track
  size_t action = 0, item = 0;
  double host = 0, device = 0;
  bool waited = false;          // the waits before the action are done
  double begin = 0;             // of the action
  uint64_t drawn = 0;           // random numbers
  std::vector<size_t> next;     // by axis: the number of its next collective
  std::vector<size_t> started;  // by item of the segment under way: the number of its collective
  std::vector<std::pair<double, double>> idle;  // from and to, in that segment: the device waits
  struct Message {
    Lane* lane;
    size_t number;
  };
  std::vector<Message> messages;  // by action
  std::map<int, double> staging;  // by slot: when what was last fetched to it or stored from it is through
  double offload_free = 0;        // when the next can begin
  RankTime time;
};

class Clock {
 public:
  Clock(std::span<const Runner> runners, Stands stands, const DeviceMap& device_map, CollectiveTimes& times,
        Events events, const Disturbance& disturbance)
      : runners_(runners),
        stands_(stands),
        map_(device_map),
        times_(times),
        events_(events),
        disturbance_(disturbance),
        states_(runners.size()) {
    const Mesh& mesh = device_map.mesh();
    pipe_ = mesh.find(kPipeAxis);
    for (size_t r = 0; r < runners.size(); ++r) {
      State& state = states_[r];
      state.next.resize(mesh.axes().size());
      state.time.exposed_seconds.resize(mesh.axes().size());
      state.messages.resize(runners[r].track->actions.size());
      std::vector<int> classes;
      for (int axis = 0; axis < static_cast<int>(mesh.axes().size()); ++axis)
        classes.push_back(join(static_cast<int>(r), axis));
      state.costs = &costs_of(*runners[r].track, classes);
    }
  }

  std::vector<RankTime> run() {
    for (int r = 0; r < static_cast<int>(runners_.size()); ++r) awake_.push_back(r);
    while (!awake_.empty()) {
      const int r = awake_.front();
      awake_.pop_front();
      while (advance(r)) {
      }
    }
    finish();
    std::vector<RankTime> result;
    for (State& state : states_) result.push_back(std::move(state.time));
    return result;
  }

 private:
  // What each meeting of a track costs in groups of these classes, by axis.
  const std::vector<MeetingCost>& costs_of(const Track& track, const std::vector<int>& classes) {
    const auto [entry, fresh] = costs_.try_emplace({&track, classes});
    if (!fresh) return entry->second;
    for (const Meeting& meeting : track.meetings) {
      MeetingCost& cost = entry->second.emplace_back();
      double whole = 0;
      for (const double bytes : meeting.calls) whole += bytes;
      for (const double bytes : meeting.calls) {
        cost.seconds += times_.seconds(classes[meeting.axis], meeting.kind, bytes);
        const double sent = whole > 0 ? meeting.bytes_sent * bytes / whole : 0;
        const PerReach reaches = times_.reaches(classes[meeting.axis], meeting.kind, bytes, sent);
        for (size_t i = 0; i < reaches.size(); ++i) cost.bytes[i] += reaches[i];
      }
    }
    return entry->second;
  }

  int join(int r, int axis) {
    const int rank = runners_[r].rank;
    const bool alone = stands_ == Stands::kForItsStage && axis != pipe_;
    const int first = alone ? rank : map_.mesh().members(rank, axis)[0];
    Group& group = groups_[{first, axis}];
    ++group.runners;
    group.group_class = times_.group_class(rank, axis);
    group_of_.push_back(&group);
    return group.group_class;
  }
  Group& group(int r, int axis) {
    return *group_of_[static_cast<size_t>(r) * map_.mesh().axes().size() + static_cast<size_t>(axis)];
  }

  int runner_of_stage(int r, int stage) const {
    if (stands_ == Stands::kForItsStage) return stage;
    return map_.mesh().members(runners_[r].rank, pipe_)[stage];
  }
  Lane& lane(int from, int to) {
    const auto [entry, fresh] = lanes_.try_emplace({from, to});
    if (fresh) {
      entry->second.path = map_.path(runners_[from].rank, runners_[to].rank);
      entry->second.number = std::ssize(lanes_);
    }
    return entry->second;
  }

  // One action's worth, or one item's; false where the runner has to wait, or is done.
  bool advance(int r) {
    const Track& track = *runners_[r].track;
    State& state = states_[r];
    if (state.action == track.actions.size()) return false;
    const TrackAction& action = track.actions[state.action];
    if (!state.waited) {
      if (!wait_for_messages(r, action.waits)) return false;
      if (action.kind == Action::Kind::kRun) wait_for_staging(state, action);
      state.waited = true;
      state.begin = state.device;
      state.item = 0;
      if (action.kind == Action::Kind::kRun) {
        state.started.assign(track.segments[action.segment].size(), 0);
        state.idle.clear();
      }
    }
    if (action.kind == Action::Kind::kRun) {
      const std::vector<Item>& items = track.segments[action.segment];
      for (; state.item < items.size(); ++state.item) {
        if (!do_item(r, items[state.item])) return false;
      }
      if (events_ == Events::kRecorded)
        record(state, {.name = track.names[action.segment],
                       .begin = state.begin,
                       .end = state.device,
                       .microbatch = action.microbatch});
    } else if (action.kind == Action::Kind::kFetch || action.kind == Action::Kind::kStore) {
      move_states(r, action);
    } else if (state.messages[state.action].lane == nullptr) {
      start_message(r, action);
    }
    if (!wait_for_messages(r, action.waits_behind)) return false;
    ++state.action;
    state.waited = false;
    return true;
  }

  bool do_item(int r, const Item& item) {
    State& state = states_[r];
    switch (item.kind) {
      case Item::Kind::kWork: {
        const double factor = disturbed(r);
        state.device =
            std::max(state.device + factor * item.work.seconds, state.host + factor * item.work.from_issue);
        state.host += item.work.issue_seconds;
        state.time.work_seconds += factor * item.work.seconds;
        state.time.flops += item.work.flops;
        return true;
      }
      case Item::Kind::kStart:
        start(r, item);
        return true;
      case Item::Kind::kWait:
        return wait(r, item);
    }
    return true;
  }

  double disturbed(int r) {
    if (!disturbance_.is_any()) return 1;
    const int rank = runners_[r].rank;
    const auto slow = disturbance_.slow.find(rank);
    const double factor = slow == disturbance_.slow.end() ? 1 : slow->second, sigma = disturbance_.jitter;
    if (sigma <= 0) return factor;
    const RngKey key{disturbance_.seed, static_cast<uint64_t>(rank)};
    return factor * std::exp(sigma * normal(key, states_[r].drawn++) - sigma * sigma / 2);
  }

  void start(int r, const Item& item) {
    State& state = states_[r];
    const Meeting& meeting = runners_[r].track->meetings[item.meeting];
    Group& among = group(r, meeting.axis);
    const size_t number = state.next[meeting.axis]++;
    state.started[state.item] = number;
    while (among.gatherings.size() <= number) among.gatherings.push_back({.missing = among.runners});
    Gathering& gathering = among.gatherings[number];
    gathering.ready_seconds = std::max(gathering.ready_seconds, state.device);
    state.time.bytes_sent += meeting.bytes_sent;
    const MeetingCost& cost = (*state.costs)[item.meeting];
    for (size_t i = 0; i < cost.bytes.size(); ++i) state.time.bytes[i] += cost.bytes[i];
    if (--gathering.missing == 0) settle(among, cost.seconds);
  }

  // All of a collective are there. Those of a group are run one after another, and met in the same order by
  // all.
  void settle(Group& among, double seconds) {
    Gathering& gathering = among.gatherings[among.known];
    TRIREME_CHECK(gathering.missing == 0);
    const double free = among.known == 0 ? 0 : among.gatherings[among.known - 1].end_seconds;
    gathering.begin_seconds = std::max(gathering.ready_seconds, free);
    gathering.end_seconds = gathering.begin_seconds + seconds;
    ++among.known;
    for (const int r : gathering.waiting) awake_.push_back(r);
  }

  // How long the device has worked while the collective ran.
  static double work_beside(const State& state, const Gathering& gathering) {
    const double from = gathering.begin_seconds, to = std::min(state.device, gathering.end_seconds);
    double seconds = std::max(0.0, to - from);
    for (const auto& [begin, end] : state.idle)
      seconds -= std::max(0.0, std::min(end, to) - std::max(begin, from));
    return seconds;
  }

  bool wait(int r, const Item& item) {
    State& state = states_[r];
    const std::vector<Item>& items =
        runners_[r].track->segments[runners_[r].track->actions[state.action].segment];
    const Meeting& meeting = runners_[r].track->meetings[items[item.start].meeting];
    Group& among = group(r, meeting.axis);
    Gathering& gathering = among.gatherings[state.started[item.start]];
    if (!gathering.is_known()) {
      gathering.waiting.push_back(r);
      return false;
    }
    const double slowdown = times_.slowdown(among.group_class);
    if (item.beside == Item::Beside::kWork && slowdown > 0)
      state.device += slowdown * work_beside(state, gathering);
    state.time.exposed_seconds[meeting.axis] += std::max(0.0, gathering.end_seconds - state.device);
    if (gathering.end_seconds > state.device) state.idle.emplace_back(state.device, gathering.end_seconds);
    if (events_ == Events::kRecorded && gathering.end_seconds > state.device)
      record(state, {.name = std::string(kWaitEvent), .begin = state.device, .end = gathering.end_seconds});
    state.device = std::max(state.device, gathering.end_seconds);
    if (events_ == Events::kRecorded)
      record(state, {.name = fmt::format("{} {}", name(meeting.kind), map_.mesh().axes()[meeting.axis].name),
                     .track = TraceEvent::Track::kCommunication,
                     .begin = gathering.begin_seconds,
                     .end = gathering.end_seconds,
                     .bytes = static_cast<int64_t>(meeting.bytes_sent)});
    return true;
  }

  static void record(State& state, TraceEvent event) { state.time.events.push_back(std::move(event)); }
  // A message as one end of it sees it.
  void record_message(State& state, const Lane& on, size_t number, double begin, double end, double bytes,
                      TraceEvent::Arrow arrow) const {
    if (events_ == Events::kNone) return;
    constexpr int64_t kPerLane = 1 << 24;
    record(state, {.name = arrow == TraceEvent::Arrow::kLeaves ? "send" : "receive",
                   .track = TraceEvent::Track::kCommunication,
                   .begin = begin,
                   .end = end,
                   .bytes = static_cast<int64_t>(bytes),
                   .arrow = arrow,
                   .message = on.number * kPerLane + static_cast<int64_t>(number)});
  }

  void start_message(int r, const TrackAction& action) {
    State& state = states_[r];
    const int other = runner_of_stage(r, action.stage);
    if (action.kind == Action::Kind::kReceive) {
      Lane& from = lane(other, r);
      state.messages[state.action] = {&from, received_[&from]++};
      return;
    }
    Lane& to = lane(r, other);
    // The host sends what the device has made.
    state.host = std::max(state.host, state.device);
    const double begin = std::max(state.device, to.free_seconds);
    to.free_seconds = begin + to.path.alpha_seconds + action.bytes * to.path.beta_seconds_per_byte;
    state.messages[state.action] = {&to, to.messages.size()};
    record_message(state, to, to.messages.size(), begin, to.free_seconds, action.bytes,
                   TraceEvent::Arrow::kLeaves);
    to.messages.push_back({state.device, to.free_seconds});
    state.time.bytes_sent += action.bytes;
    state.time.bytes[static_cast<size_t>(to.path.reach)] += action.bytes;
    for (const int waiting : to.waiting) awake_.push_back(waiting);
    to.waiting.clear();
  }

  // The host waits until nothing is under way in the slot; then it goes on, and bytes move behind those
  // before them, when the device has done what is to be done before.
  void move_states(int r, const TrackAction& action) {
    State& state = states_[r];
    double& through = state.staging[action.staging[0]];
    state.host = std::max(state.host, through);
    const double begin = std::max({state.host, state.device, state.offload_free});
    through = begin + action.bytes / map_.device(runners_[r].rank).offload_bytes_per_second;
    state.offload_free = through;
    state.time.offload_bytes += action.bytes;
    if (events_ == Events::kRecorded)
      record(state, {.name = action.kind == Action::Kind::kFetch ? "fetch" : "store",
                     .track = TraceEvent::Track::kCommunication,
                     .begin = begin,
                     .end = through,
                     .bytes = static_cast<int64_t>(action.bytes)});
  }

  static void wait_for_staging(State& state, const TrackAction& action) {
    for (const int slot : action.staging) {
      const double late = std::max(0.0, state.staging[slot] - state.device);
      state.time.offload_seconds += late;
      state.device += late;
    }
  }

  bool wait_for_messages(int r, const std::vector<int>& waits) {
    State& state = states_[r];
    for (const int action : waits) {
      const auto& [from, number] = state.messages[action];
      if (number >= from->messages.size()) {
        from->waiting.push_back(r);
        return false;
      }
    }
    for (const int action : waits) {
      const Lane::Message& message = state.messages[action].lane->messages[state.messages[action].number];
      const bool receives = runners_[r].track->actions[action].kind == Action::Kind::kReceive;
      const double until_sent = receives ? std::max(0.0, message.sent_seconds - state.device) : 0;
      state.device += until_sent;
      state.time.bubble_seconds += until_sent;
      state.time.exposed_seconds[pipe_] += std::max(0.0, message.arrives_seconds - state.device);
      state.device = std::max(state.device, message.arrives_seconds);
      state.host = std::max(state.host, state.device);
      if (receives)
        record_message(state, *state.messages[action].lane, state.messages[action].number,
                       message.arrives_seconds, message.arrives_seconds,
                       runners_[r].track->actions[action].bytes, TraceEvent::Arrow::kArrives);
    }
    return true;
  }

  void finish() {
    double end = 0;
    for (size_t r = 0; r < runners_.size(); ++r) {
      State& state = states_[r];
      if (state.action < runners_[r].track->actions.size())
        throw_error("rank {} waits for ever at action {} of {} of its step; `trireme verify` says why",
                    runners_[r].rank, state.action, runners_[r].track->actions.size());
      state.time.end_seconds = std::max(state.device, state.host);
      end = std::max(end, state.time.end_seconds);
    }
    for (State& state : states_) state.time.bubble_seconds += end - state.time.end_seconds;
  }

  std::span<const Runner> runners_;
  Stands stands_;
  const DeviceMap& map_;
  CollectiveTimes& times_;
  Events events_;
  const Disturbance& disturbance_;
  int pipe_ = -1;
  std::vector<State> states_;
  std::map<std::pair<const Track*, std::vector<int>>, std::vector<MeetingCost>> costs_;
  std::map<std::pair<int, int>, Group> groups_;  // by first rank and axis
  std::vector<Group*> group_of_;                 // by runner and axis
  std::map<std::pair<int, int>, Lane> lanes_;    // by sender and receiver
  std::map<const Lane*, size_t> received_;
  std::deque<int> awake_;  // runners that may go on
};

}  // namespace

std::vector<RankTime> run_clock(std::span<const Runner> runners, Stands stands, const DeviceMap& device_map,
                                CollectiveTimes& times, Events events, const Disturbance& disturbance) {
  return Clock(runners, stands, device_map, times, events, disturbance).run();
}

}  // namespace trireme::sim
