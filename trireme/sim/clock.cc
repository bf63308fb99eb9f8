// Each rank continues until it needs something that is not known yet; the rank that makes it known wakes it.
// Messages share ways, and a rank may decide by what has come: both happen in the order of their times, and
// for that alone a rank that is ahead of the others lets them go first.
#include "trireme/sim/clock.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <map>
#include <queue>
#include <tuple>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/rng.h"

namespace trireme::sim {
namespace {

// One collective of a group.
struct Gathering {
  int missing = 0;
  double ready_seconds = 0;
  double begin_seconds = 0, end_seconds = -1;
  double free_seconds = 0;        // when the next one can begin
  std::vector<int> waiting = {};  // runners

  bool is_known() const { return end_seconds >= 0; }
};

struct Group {
  int runners = 0;
  int group_class = 0;
  std::deque<Gathering> gatherings = {};
  size_t known = 0;  // of them, from the first on
};

constexpr double kNotKnown = std::numeric_limits<double>::infinity();

// Messages from one runner to another, in order.
struct Lane {
  struct Message {
    double sent_seconds, left_seconds, bytes;
    double arrives_seconds = kNotKnown;
  };
  Path path;
  int to = 0;          // runner
  int axis = 0;        // along which it goes
  int64_t number = 0;  // among all lanes
  size_t taken = 0;    // messages, by whom they are for
  std::deque<Message> messages = {};
  std::vector<int> waiting = {};
};

// What happens next: a runner goes on, or a message reaches the one that it is for.
struct Happening {
  double seconds = 0;
  int64_t number = 0;  // of two at the same time, the first one to be known
  int runner = -1;
  Lane* lane = nullptr;
  size_t message = 0;

  bool operator>(const Happening& other) const {
    return std::tuple(seconds, lane == nullptr, number) >
           std::tuple(other.seconds, other.lane == nullptr, other.number);
  }
};

struct MeetingCost {
  double seconds = 0;
  double busy_seconds = 0;     // until the next one of the group can begin
  double passed_on_bytes = 0;  // that a rank sends beside what its program promises
  PerReach bytes = {};
};

struct State {
  const std::vector<MeetingCost>* costs = nullptr;  // by meeting of its track
  AgendaItem turn = {};
  enum class Does { kNothing, kTurn, kAll } does = Does::kNothing;  // kAll: it has ended
  size_t action = 0, item = 0;                                      // of the turn's list
  double host = 0, device = 0;
  enum class Phase { kBefore, kIn, kBehind } phase = Phase::kBefore;  // of the action
  double begin = 0;                                                   // of the action
  uint64_t drawn = 0;                                                 // random numbers
  std::vector<size_t> next;     // by axis: the number of its next collective
  std::vector<size_t> started;  // by item of the segment under way: the number of its collective
  std::vector<std::pair<double, double>> idle;  // from and to, in that segment: the device waits
  struct Message {
    Lane* lane;
    size_t number;
  };
  std::vector<Message> messages;  // by action
  struct Sum {
    int meeting;
    size_t number;
  };
  std::map<int, Sum> sums;        // under way
  std::map<int, double> staging;  // by slot: when what was last fetched to it or stored from it is through
  double offload_free = 0;        // when the next can begin
  double sends_until = 0, receives_until = 0;
  double goes_on_seconds = kNotKnown;  // the next time that it is looked at
  RankTime time;
  RankTime before, last;  // when the steps that are not counted were made, and the last one
  int64_t steps = 0;      // made
};

// What each of `steps` took that were made between two moments.
RankTime between(RankTime all, const RankTime& before, double steps) {
  const auto take = [&](double& of_all, double of_before) { of_all = (of_all - of_before) / steps; };
  take(all.end_seconds, before.end_seconds);
  take(all.work_seconds, before.work_seconds);
  take(all.bubble_seconds, before.bubble_seconds);
  take(all.offload_seconds, before.offload_seconds);
  take(all.flops, before.flops);
  take(all.bytes_sent, before.bytes_sent);
  take(all.offload_bytes, before.offload_bytes);
  for (size_t i = 0; i < all.exposed_seconds.size(); ++i)
    take(all.exposed_seconds[i], before.exposed_seconds[i]);
  for (size_t i = 0; i < all.bytes.size(); ++i) take(all.bytes[i], before.bytes[i]);
  all.bubble_seconds = std::max(0.0, all.bubble_seconds);  // of no length, it may be less by rounding
  all.steps = steps;
  return all;
}

class Clock {
 public:
  Clock(std::span<const SimulatedRank> runners, Stands stands, const DeviceMap& device_map,
        CollectiveTimes& times, Events events, const Disturbance& disturbance, Pace pace, int64_t before)
      : runners_(runners),
        stands_(stands),
        map_(device_map),
        times_(times),
        events_(events),
        disturbance_(disturbance),
        pace_(pace),
        before_(before),
        states_(runners.size()) {
    const Mesh& mesh = device_map.mesh();
    pipe_ = mesh.find(kPipeAxis);
    for (size_t r = 0; r < runners.size(); ++r) {
      State& state = states_[r];
      agendas_.emplace_back(*runners[r].track, Window{});
      state.next.resize(mesh.axes().size());
      state.time.exposed_seconds.resize(mesh.axes().size());
      state.before = state.time;
      std::vector<int> classes;
      for (int axis = 0; axis < static_cast<int>(mesh.axes().size()); ++axis)
        classes.push_back(join(static_cast<int>(r), axis));
      state.costs = &costs_of(*runners[r].track, classes);
    }
  }

  std::vector<RankTime> run() {
    for (int r = 0; r < static_cast<int>(runners_.size()); ++r) wake(r, 0);
    while (!happenings_.empty() && !over_) {
      const Happening next = happenings_.top();
      happenings_.pop();
      now_ = next.seconds;
      if (next.lane) {
        receive(*next.lane, next.message);
        continue;
      }
      State& state = states_[next.runner];
      if (state.goes_on_seconds != next.seconds) continue;  // it has gone on before
      state.goes_on_seconds = kNotKnown;
      while (advance(next.runner)) {
      }
    }
    return finish();
  }

 private:
  // A runner that goes on earlier finds out then what else it has to wait for.
  void wake(int r, double seconds) {
    State& state = states_[r];
    seconds = std::max(now_, seconds);
    if (seconds >= state.goes_on_seconds) return;
    state.goes_on_seconds = seconds;
    happenings_.push({.seconds = seconds, .number = happened_++, .runner = r});
  }
  void wake_all(std::vector<int>& waiting) {
    for (const int r : std::exchange(waiting, {})) wake(r, states_[r].device);
  }
  // Whether nothing can happen any more before this rank's time; else it goes on then.
  bool is_its_turn(int r) {
    const double seconds = states_[r].device;
    if (happenings_.empty()) return true;
    const Happening& next = happenings_.top();
    if (next.seconds > seconds || (next.seconds == seconds && !next.lane)) return true;
    wake(r, seconds);
    return false;
  }

  // What each meeting of a track costs in groups of these classes, by axis.
  const std::vector<MeetingCost>& costs_of(const Track& track, const std::vector<int>& classes) {
    const auto [entry, fresh] = costs_.try_emplace({&track, classes});
    if (!fresh) return entry->second;
    for (const Meeting& meeting : track.meetings) {
      MeetingCost& cost = entry->second.emplace_back();
      double whole = 0;
      for (const double bytes : meeting.calls) whole += bytes;
      for (const double bytes : meeting.calls) {
        const double sent = whole > 0 ? meeting.bytes_sent * bytes / whole : 0;
        const double seconds = times_.seconds(classes[meeting.axis], meeting.kind, bytes, meeting.parts);
        cost.seconds = std::max(cost.seconds, cost.busy_seconds + seconds);
        cost.busy_seconds += times_.busy_seconds(classes[meeting.axis], meeting.kind, bytes, sent);
        cost.passed_on_bytes +=
            times_.passed_on_bytes(classes[meeting.axis], meeting.kind, bytes, meeting.parts);
        const PerReach reaches =
            times_.reaches(classes[meeting.axis], meeting.kind, bytes, sent, meeting.parts);
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

  // The runner that has another coordinate along an axis.
  int runner_at(int r, int axis, int place) const {
    if (stands_ == Stands::kForItsStage) return place;  // of pipe: others have no messages
    return map_.mesh().members(runners_[r].rank, axis)[place];
  }
  Lane& lane(int from, int to) {
    const auto [entry, fresh] = lanes_.try_emplace({from, to});
    Lane& found = entry->second;
    if (!fresh) return found;
    const int sender = runners_[from].rank, receiver = runners_[to].rank;
    found.path = map_.path(sender, receiver);
    found.to = to;
    found.number = std::ssize(lanes_);
    const Mesh& mesh = map_.mesh();
    while (mesh.coordinate(sender, found.axis) == mesh.coordinate(receiver, found.axis)) ++found.axis;
    return found;
  }

  // What has come to a runner; ranks are runners where any looks into it.
  class Received final : public Inbox {
   public:
    Received(Clock& clock, int r) : clock_(clock), r_(r) {}
    bool has_message_of(int rank) override {
      const Lane::Message* next = next_of(clock_.lane(rank, r_));
      return next && next->arrives_seconds <= clock_.states_[r_].device;
    }
    void take_message_of(int rank) override {
      Lane& from = clock_.lane(rank, r_);
      const Lane::Message& message = *next_of(from);
      clock_.record_message(clock_.states_[r_], from, from.taken++, message.arrives_seconds,
                            message.arrives_seconds, message.bytes, TraceEvent::Arrow::kArrives);
    }
    static const Lane::Message* next_of(const Lane& from) {
      return from.taken < from.messages.size() ? &from.messages[from.taken] : nullptr;
    }

   private:
    Clock& clock_;
    const int r_;
  };

  // One action's worth, or one item's; false where the runner has to wait, or is done.
  bool advance(int r) {
    State& state = states_[r];
    if (state.does == State::Does::kAll) return false;
    if (state.does == State::Does::kNothing) {
      if (pace_ == Pace::kOwn && !is_its_turn(r)) return false;
      Received inbox(*this, r);
      state.turn = (runners_[r].agenda ? *runners_[r].agenda : agendas_[r]).next(inbox);
      state.does = State::Does::kTurn;
      state.action = 0;
      if (state.turn.list >= 0)
        state.messages.assign(runners_[r].track->lists[state.turn.list].actions.size(), {});
    }
    if (!do_turn(r)) return false;
    state.does = State::Does::kNothing;
    return true;
  }

  bool do_turn(int r) {
    State& state = states_[r];
    switch (state.turn.kind) {
      case AgendaItem::Kind::kList:
        while (state.action < actions(state, r).size()) {
          if (!do_action(r, actions(state, r)[state.action])) return false;
        }
        return true;
      case AgendaItem::Kind::kBegin:
        for (; state.action < actions(state, r).size(); ++state.action) {
          if (!is_its_turn(r)) return false;
          start_message(r, actions(state, r)[state.action]);
        }
        return true;
      case AgendaItem::Kind::kAwait:
        return await(r);
      case AgendaItem::Kind::kStepEnd:
        end_step(state);
        return true;
      case AgendaItem::Kind::kEnd:
        state.does = State::Does::kAll;
        over_ |= pace_ == Pace::kOwn;
        return false;
    }
    return true;
  }
  const std::vector<TrackAction>& actions(const State& state, int r) const {
    return runners_[r].track->lists[state.turn.list].actions;
  }

  // The first of the messages that it waits for.
  bool await(int r) {
    State& state = states_[r];
    const Lane* first = nullptr;
    for (const int rank : state.turn.ranks) {
      const Lane& from = lane(rank, r);
      const Lane::Message* next = Received::next_of(from);
      if (!next || next->arrives_seconds == kNotKnown) continue;
      if (!first || next->arrives_seconds < Received::next_of(*first)->arrives_seconds) first = &from;
    }
    const double seconds = first ? Received::next_of(*first)->arrives_seconds : kNotKnown;
    if (seconds > std::max(now_, state.device)) {
      if (first) wake(r, seconds);
      for (const int rank : state.turn.ranks) lane(rank, r).waiting.push_back(r);
      return false;
    }
    wait_for(state, *first, *Received::next_of(*first), Action::Kind::kReceive);
    return true;
  }

  void end_step(State& state) {
    state.time.end_seconds = std::max(state.device, state.host);
    ++state.steps;
    if (state.steps > before_) {
      std::vector<TraceEvent> events = std::exchange(state.time.events, {});
      state.last = state.time;
      state.time.events = std::move(events);
    } else if (state.steps == before_) {
      state.time.events.clear();
      state.before = state.time;
    }
  }

  bool do_action(int r, const TrackAction& action) {
    State& state = states_[r];
    using enum State::Phase;
    if (state.phase == kBefore) {
      if (!wait_for_messages(r, action.waits)) return false;
      if (action.kind == Action::Kind::kRun) begin_run(r, action);
      state.begin = state.device;
      state.phase = kIn;
    }
    if (state.phase == kIn) {
      if (!do_in(r, action)) return false;
      state.phase = kBehind;
    }
    if (!wait_for_messages(r, action.waits_behind)) return false;
    ++state.action;
    state.phase = kBefore;
    return true;
  }

  void begin_run(int r, const TrackAction& action) {
    State& state = states_[r];
    wait_for_staging(state, action);
    state.item = 0;
    state.started.assign(runners_[r].track->segments[action.segment].size(), 0);
    if (state.sums.empty()) state.idle.clear();
  }

  bool do_in(int r, const TrackAction& action) {
    State& state = states_[r];
    switch (action.kind) {
      case Action::Kind::kRun: {
        const Track& track = *runners_[r].track;
        const std::vector<Item>& items = track.segments[action.segment];
        for (; state.item < items.size(); ++state.item) {
          if (!do_item(r, action.segment, items[state.item])) return false;
        }
        if (events_ == Events::kRecorded)
          record(state, {.name = track.names[action.segment],
                         .kind = track.kinds[action.segment],
                         .begin = state.begin,
                         .end = state.device,
                         .microbatch = action.microbatch});
        return true;
      }
      case Action::Kind::kFetch:
      case Action::Kind::kStore:
        move_states(r, action);
        return true;
      case Action::Kind::kReduce:
        state.sums[action.sum] = {action.meeting, start(r, action.meeting)};
        return true;
      case Action::Kind::kAwait: {
        const State::Sum& sum = state.sums.at(action.sum);
        if (!wait(r, sum.meeting, sum.number, Item::Beside::kWork)) return false;
        state.sums.erase(action.sum);
        return true;
      }
      case Action::Kind::kSend:
      case Action::Kind::kReceive:
        if (action.kind == Action::Kind::kSend && !is_its_turn(r)) return false;
        start_message(r, action);
        return true;
    }
    return true;
  }

  bool do_item(int r, int segment, const Item& item) {
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
        state.started[state.item] = start(r, item.meeting);
        return true;
      case Item::Kind::kWait: {
        const Item& started = runners_[r].track->segments[segment][item.start];
        return wait(r, started.meeting, state.started[item.start], item.beside);
      }
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

  // Returns the number of the collective in its group.
  size_t start(int r, int of_track) {
    State& state = states_[r];
    const Meeting& meeting = runners_[r].track->meetings[of_track];
    Group& among = group(r, meeting.axis);
    const size_t number = state.next[meeting.axis]++;
    while (among.gatherings.size() <= number) among.gatherings.push_back({.missing = among.runners});
    Gathering& gathering = among.gatherings[number];
    gathering.ready_seconds = std::max(gathering.ready_seconds, state.device);
    const MeetingCost& cost = (*state.costs)[of_track];
    state.time.bytes_sent += meeting.bytes_sent + cost.passed_on_bytes;
    for (size_t i = 0; i < cost.bytes.size(); ++i) state.time.bytes[i] += cost.bytes[i];
    if (--gathering.missing == 0) settle(among, cost);
    return number;
  }

  // All of a collective are there. Those of a group are run one after another, and met in the same order by
  // all.
  void settle(Group& among, const MeetingCost& cost) {
    Gathering& gathering = among.gatherings[among.known];
    TRIREME_CHECK(gathering.missing == 0);
    const double free = among.known == 0 ? 0 : among.gatherings[among.known - 1].free_seconds;
    gathering.begin_seconds = std::max(gathering.ready_seconds, free);
    gathering.end_seconds = gathering.begin_seconds + cost.seconds;
    gathering.free_seconds = gathering.begin_seconds + cost.busy_seconds;
    ++among.known;
    wake_all(gathering.waiting);
  }

  // How long the device has worked while the collective ran.
  static double work_beside(const State& state, const Gathering& gathering) {
    const double from = gathering.begin_seconds, to = std::min(state.device, gathering.end_seconds);
    double seconds = std::max(0.0, to - from);
    for (const auto& [begin, end] : state.idle)
      seconds -= std::max(0.0, std::min(end, to) - std::max(begin, from));
    return seconds;
  }

  bool wait(int r, int of_track, size_t number, Item::Beside beside) {
    State& state = states_[r];
    const Meeting& meeting = runners_[r].track->meetings[of_track];
    Group& among = group(r, meeting.axis);
    Gathering& gathering = among.gatherings[number];
    if (!gathering.is_known()) {
      gathering.waiting.push_back(r);
      return false;
    }
    const double slowdown = times_.slowdown(among.group_class);
    if (beside == Item::Beside::kWork && slowdown > 0)
      state.device += slowdown * work_beside(state, gathering);
    state.time.exposed_seconds[meeting.axis] += std::max(0.0, gathering.end_seconds - state.device);
    if (gathering.end_seconds > state.device) state.idle.emplace_back(state.device, gathering.end_seconds);
    if (events_ == Events::kRecorded && gathering.end_seconds > state.device)
      record(state, {.name = std::string(kWaitEvent),
                     .kind = TraceEvent::Kind::kWait,
                     .begin = state.device,
                     .end = gathering.end_seconds});
    state.device = std::max(state.device, gathering.end_seconds);
    if (events_ == Events::kRecorded)
      record(state, {.name = fmt::format("{} {}", name(meeting.kind), map_.mesh().axes()[meeting.axis].name),
                     .kind = TraceEvent::Kind::kCollective,
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
                   .kind = TraceEvent::Kind::kMessage,
                   .track = TraceEvent::Track::kCommunication,
                   .begin = begin,
                   .end = end,
                   .bytes = static_cast<int64_t>(bytes),
                   .arrow = arrow,
                   .message = on.number * kPerLane + static_cast<int64_t>(number)});
  }

  void start_message(int r, const TrackAction& action) {
    State& state = states_[r];
    const int other = runner_at(r, action.axis, action.place);
    if (action.kind == Action::Kind::kReceive) {
      Lane& from = lane(other, r);
      state.messages[state.action] = {&from, from.taken++};
      return;
    }
    Lane& to = lane(r, other);
    // The host sends what the device has made.
    state.host = std::max(state.host, state.device);
    const double leaves = std::max(state.device, state.sends_until);
    state.sends_until = leaves + action.bytes * to.path.beta_seconds_per_byte;
    const size_t number = to.messages.size();
    state.messages[state.action] = {&to, number};
    record_message(state, to, number, leaves, state.sends_until, action.bytes, TraceEvent::Arrow::kLeaves);
    to.messages.push_back({state.device, state.sends_until, action.bytes});
    state.time.bytes_sent += action.bytes;
    state.time.bytes[static_cast<size_t>(to.path.reach)] += action.bytes;
    happenings_.push(
        {.seconds = leaves + to.path.alpha_seconds, .number = happened_++, .lane = &to, .message = number});
  }

  // Its first byte is there.
  void receive(Lane& on, size_t number) {
    State& receiver = states_[on.to];
    Lane::Message& message = on.messages[number];
    message.arrives_seconds =
        std::max(now_, receiver.receives_until) + message.bytes * on.path.beta_seconds_per_byte;
    receiver.receives_until = message.arrives_seconds;
    wake_all(on.waiting);
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
                     .kind = TraceEvent::Kind::kOffload,
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
    const std::vector<TrackAction>& all = actions(state, r);
    for (const int action : waits) {
      const auto& [on, number] = state.messages[action];
      if (all[action].kind == Action::Kind::kSend) continue;
      if (number < on->messages.size() && on->messages[number].arrives_seconds < kNotKnown) continue;
      on->waiting.push_back(r);
      return false;
    }
    for (const int action : waits) {
      const auto& [on, number] = state.messages[action];
      wait_for(state, *on, on->messages[number], all[action].kind);
      if (all[action].kind == Action::Kind::kReceive)
        record_message(state, *on, number, on->messages[number].arrives_seconds,
                       on->messages[number].arrives_seconds, all[action].bytes, TraceEvent::Arrow::kArrives);
    }
    return true;
  }

  // Until a message has come; or one that was sent has left.
  static void wait_for(State& state, const Lane& on, const Lane::Message& message, Action::Kind kind) {
    const bool receives = kind == Action::Kind::kReceive;
    const double through = receives ? message.arrives_seconds : message.left_seconds;
    if (through > state.device) state.idle.emplace_back(state.device, through);
    const double until_sent = receives ? std::max(0.0, message.sent_seconds - state.device) : 0;
    state.device += until_sent;
    state.time.bubble_seconds += until_sent;
    state.time.exposed_seconds[on.axis] += std::max(0.0, through - state.device);
    state.device = std::max(state.device, through);
    state.host = std::max(state.host, state.device);
  }

  std::vector<RankTime> finish() {
    double begin = 0, end = 0, first = kNotKnown;
    for (size_t r = 0; r < runners_.size(); ++r) {
      const State& state = states_[r];
      if (state.does != State::Does::kAll && !over_)
        throw_error("rank {} waits for ever in its list '{}', at action {}; `trireme verify` says why",
                    runners_[r].rank,
                    state.turn.list < 0 ? "" : runners_[r].track->lists[state.turn.list].name, state.action);
      begin = std::max(begin, state.before.end_seconds);
      first = std::min(first, state.before.end_seconds);
      end = std::max(end, state.last.end_seconds);
    }
    std::vector<RankTime> result;
    for (State& state : states_) {
      if (pace_ == Pace::kInStep) {
        state.before.bubble_seconds += begin - state.before.end_seconds;
        state.last.bubble_seconds += end - state.last.end_seconds;
      }
      const auto steps = static_cast<double>(std::max<int64_t>(0, state.steps - before_));
      RankTime& time = result.emplace_back(steps > 0 ? between(std::move(state.last), state.before, steps)
                                                     : std::move(state.before));
      time.events = std::move(state.time.events);
      for (TraceEvent& event : time.events) {
        event.begin = std::max(0.0, event.begin - first);
        event.end = std::max(0.0, event.end - first);
      }
    }
    return result;
  }

  std::span<const SimulatedRank> runners_;
  Stands stands_;
  const DeviceMap& map_;
  CollectiveTimes& times_;
  Events events_;
  const Disturbance& disturbance_;
  const Pace pace_;
  const int64_t before_;
  int pipe_ = -1;
  std::vector<State> states_;
  std::deque<LockstepAgenda> agendas_;  // of one step
  std::map<std::pair<const Track*, std::vector<int>>, std::vector<MeetingCost>> costs_;
  std::map<std::pair<int, int>, Group> groups_;  // by first rank and axis
  std::vector<Group*> group_of_;                 // by runner and axis
  std::map<std::pair<int, int>, Lane> lanes_;    // by sender and receiver
  std::priority_queue<Happening, std::vector<Happening>, std::greater<>> happenings_;
  int64_t happened_ = 0;
  double now_ = 0;
  bool over_ = false;
};

}  // namespace

std::vector<RankTime> run_clock(std::span<const SimulatedRank> runners, Stands stands,
                                const DeviceMap& device_map, CollectiveTimes& times, Events events,
                                const Disturbance& disturbance, Pace pace, int64_t before) {
  return Clock(runners, stands, device_map, times, events, disturbance, pace, before).run();
}

}  // namespace trireme::sim
