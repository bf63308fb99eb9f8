// The clock against times that were worked out on paper. Links have round figures, so that every time is a
// literal number; the comment above it is its derivation.
#include <gtest/gtest.h>

#include <cmath>

#include "trireme/sim/clock.h"

namespace trireme::sim {
namespace {

// One host with a device for each rank. Over its link, with α = 0 and 1 byte a second, two ranks take n
// seconds for an all_reduce of n bytes, and n / 2 for an all_gather that makes n bytes.
class Paper {
 public:
  Paper(const char* mesh, LinkClass link, double offload_bytes_per_second = 0) : mesh_(parse_mesh(mesh)) {
    link.name = "wire";
    cluster_.devices = {{.name = "device",
                         .bandwidth = {{0, 1}},
                         .flops_per_second = {{DType::f32, 1}},
                         .offload_bytes_per_second = offload_bytes_per_second}};
    cluster_.hosts = {{.device = "device", .devices = mesh_.ranks(), .inside = "wire"}};
    cluster_.links = {link};
  }

  // The tracks of ranks 0, 1, …; where there is one, all ranks have it.
  std::vector<RankTime> run(const std::vector<Track>& tracks, Events events = Events::kNone,
                            const Disturbance& disturbance = {}) const {
    const DeviceMap device_map(mesh_, cluster_);
    CollectiveTimes times(device_map, CollectiveModel::kClosedForms, {});
    std::vector<SimulatedRank> runners;
    for (int rank = 0; rank < mesh_.ranks(); ++rank)
      runners.push_back({rank, &tracks[tracks.size() == 1 ? 0 : static_cast<size_t>(rank)]});
    return run_clock(runners, Stands::kForItself, device_map, times, events, disturbance);
  }

 private:
  Mesh mesh_;
  Cluster cluster_;
};

std::vector<TrackAction>& actions_of(Track& track) {
  if (track.lists.empty()) track.lists.emplace_back();
  return track.lists[0].actions;
}

Item work(double seconds, double issue_seconds = 0) {
  Item item;
  item.work.add(seconds, 0, issue_seconds);
  return item;
}
Item start(int meeting) {
  return {.kind = Item::Kind::kStart, .meeting = meeting};
}
Item wait(int item, Item::Beside beside = Item::Beside::kWork) {
  return {.kind = Item::Kind::kWait, .start = item, .beside = beside};
}
Meeting all_reduce(int axis, std::vector<double> calls) {
  return {.kind = CollectiveKind::kAllReduce, .axis = axis, .calls = std::move(calls)};
}
// A step of one segment.
Track one_segment(std::vector<Meeting> meetings, std::vector<Item> items) {
  Track track;
  track.segments = {std::move(items)};
  track.names = {"only"};
  track.kinds = {TraceEvent::Kind::kGradients};
  track.meetings = std::move(meetings);
  actions_of(track) = {{.segment = 0}};
  return track;
}
TrackAction send(int stage, double bytes) {
  return {.kind = Action::Kind::kSend, .place = stage, .bytes = bytes};
}
TrackAction receive(int stage, double bytes) {
  return {.kind = Action::Kind::kReceive, .place = stage, .bytes = bytes};
}

// Both are started at 1. The first takes 3 s: 1 to 4. The second waits for it and takes 2 + 2 s in two calls:
// 4 to 8. Of 8 s the device works for 1 and waits for 7.
TEST(ClockByHand, CollectivesOfAGroupGoOneAfterAnother) {
  const Track track = one_segment({all_reduce(0, {3}), all_reduce(0, {2, 2})},
                                  {work(1), start(0), start(1), wait(1), wait(2)});
  for (const RankTime& rank : Paper("data:2", {.bytes_per_second = 1}).run({track})) {
    EXPECT_DOUBLE_EQ(rank.end_seconds, 8);
    EXPECT_DOUBLE_EQ(rank.work_seconds, 1);
    EXPECT_DOUBLE_EQ(rank.exposed_seconds[0], 7);
  }
}

// The same along two axes: 1 to 4 and 1 to 5, beside one another.
TEST(ClockByHand, CollectivesOfTwoAxesGoBesideOneAnother) {
  const Track track =
      one_segment({all_reduce(0, {3}), all_reduce(1, {4})}, {work(1), start(0), start(1), wait(1), wait(2)});
  for (const RankTime& rank : Paper("data:2 tensor:2", {.bytes_per_second = 1}).run({track})) {
    EXPECT_DOUBLE_EQ(rank.end_seconds, 5);
    EXPECT_DOUBLE_EQ(rank.exposed_seconds[0], 3);
    EXPECT_DOUBLE_EQ(rank.exposed_seconds[1], 1);
  }
}

// α is 0.5 s. Stage 0 has made everything at 1, and sends one message after another: to stage 1 2 bytes, 1 to
// 3, and 3 bytes, 3 to 6; to stage 2 4 bytes, 6 to 10. Each is there 0.5 s after it has left. Until 1 the
// others wait for work of stage 0 (their bubble), then for the link.
TEST(ClockByHand, ARankSendsItsMessagesOneAfterAnother) {
  Track first, second, third;
  first.segments = second.segments = third.segments = {{work(1)}};
  actions_of(first) = {{.segment = 0}, send(1, 2), send(1, 3), send(2, 4)};
  actions_of(first).back().waits_behind = {1, 2, 3};
  actions_of(second) = {
      receive(0, 2), receive(0, 3), {.segment = 0, .waits = {0}}, {.segment = 0, .waits = {1}}};
  actions_of(third) = {receive(0, 4), {.segment = 0, .waits = {0}}};
  const std::vector<RankTime> ended =
      Paper("pipe:3", {.alpha_seconds = 0.5, .bytes_per_second = 1}).run({first, second, third});
  // Stage 0 ends when all it has sent has left, at 10, and waits 1.5 s for stage 2.
  EXPECT_DOUBLE_EQ(ended[0].end_seconds, 10);
  EXPECT_DOUBLE_EQ(ended[0].exposed_seconds[0], 9);
  EXPECT_DOUBLE_EQ(ended[0].bubble_seconds, 1.5);
  EXPECT_DOUBLE_EQ(ended[0].bytes_sent, 9);
  EXPECT_DOUBLE_EQ(ended[0].bytes[static_cast<size_t>(Reach::kInside)], 9);
  // Stage 1 works from 3.5 to 4.5, and from 6.5 to 7.5.
  EXPECT_DOUBLE_EQ(ended[1].end_seconds, 7.5);
  EXPECT_DOUBLE_EQ(ended[1].exposed_seconds[0], 2.5 + 2);
  EXPECT_DOUBLE_EQ(ended[1].bubble_seconds, 1 + 4);
  // Stage 2 works from 10.5 to 11.5.
  EXPECT_DOUBLE_EQ(ended[2].end_seconds, 11.5);
  EXPECT_DOUBLE_EQ(ended[2].exposed_seconds[0], 9.5);
  EXPECT_DOUBLE_EQ(ended[2].bubble_seconds, 1);
}

// Stages 0 and 1 send 4 and 2 bytes to stage 2 at 0 and at 1. Those of stage 1 are there when those of stage
// 0 are half through, and come behind them: 0 to 4, and 4 to 6.
TEST(ClockByHand, ARankReceivesItsMessagesOneAfterAnother) {
  Track first, second, third;
  first.segments = second.segments = third.segments = {{work(1)}};
  actions_of(first) = {send(2, 4)};
  actions_of(second) = {{.segment = 0}, send(2, 2)};
  actions_of(third) = {receive(0, 4), receive(1, 2), {.segment = 0, .waits = {0, 1}}};
  const std::vector<RankTime> ended = Paper("pipe:3", {.bytes_per_second = 1}).run({first, second, third});
  EXPECT_DOUBLE_EQ(ended[2].end_seconds, 7);
  EXPECT_DOUBLE_EQ(ended[2].exposed_seconds[0], 6);
}

// A sum of 8 bytes is begun at 1 and goes on to 9, beside work of 4 s in another list, to 5; then 4 s are
// left to wait. Beside it work loses a quarter where the link says so: to 6, and 3 s are left.
TEST(ClockByHand, ASumGoesOnBehindTheListThatBeginsIt) {
  Track track;
  track.segments = {{work(1)}, {work(4)}};
  track.meetings = {all_reduce(0, {8})};
  track.lists.resize(2);
  track.lists[0].actions = {{.segment = 0}, {.kind = Action::Kind::kReduce, .meeting = 0, .sum = 0}};
  track.lists[1].when = When::every(1, 1);
  track.lists[1].actions = {{.segment = 1}, {.kind = Action::Kind::kAwait, .sum = 0}};
  for (const auto& [slowdown, waits] : {std::pair(0.0, 4.0), {0.25, 3.0}}) {
    const RankTime rank = Paper("data:2", {.bytes_per_second = 1, .slowdown = slowdown}).run({track})[0];
    EXPECT_DOUBLE_EQ(rank.exposed_seconds[0], waits);
    EXPECT_DOUBLE_EQ(rank.end_seconds, 9);
  }
}

// Stage 0 works until 10, and its message is there at once. Hosts need 2 s to give the next work of 1 s, and
// begin with that when the message was sent, and when it has come: at 10. The device has the work at 12.
TEST(ClockByHand, HostsThatSendOrReceiveIssueBehindIt) {
  Track first, second;
  first.segments = {{work(10)}, {work(1, 2)}};
  actions_of(first) = {{.segment = 0}, send(1, 0), {.segment = 1}};
  second.segments = {{work(1, 2)}};
  actions_of(second) = {receive(0, 0), {.segment = 0, .waits = {0}}};
  const std::vector<RankTime> ended = Paper("pipe:2", {.bytes_per_second = 1}).run({first, second});
  EXPECT_DOUBLE_EQ(ended[0].end_seconds, 13);
  EXPECT_DOUBLE_EQ(ended[1].end_seconds, 13);
  EXPECT_DOUBLE_EQ(ended[1].work_seconds, 1);
}

// Hosts go ahead of devices. Three nodes of 4 s, 1 s to issue each: given at 1, 2 and 3, done at 5, 9 and 13.
// In the next segment, 1 s of work that is given at 4 and found waiting: 14.
TEST(ClockByHand, HostsIssueAheadOfTheirDevices) {
  Track track;
  Item three = work(4, 1);
  three.work.add(4, 0, 1);
  three.work.add(4, 0, 1);
  track.segments = {{three}, {work(1, 1)}};
  actions_of(track) = {{.segment = 0}, {.segment = 1}};
  EXPECT_DOUBLE_EQ(Paper("data:1", {.bytes_per_second = 1}).run({track})[0].end_seconds, 14);
}

// A collective of 8 s, 1 to 9, takes a quarter of its time from the work beside it.
TEST(ClockByHand, WorkBesideACollectiveIsSlowed) {
  const Paper paper("data:2", {.bytes_per_second = 1, .slowdown = 0.25});
  const auto beside = [&](double seconds) {
    return paper.run({one_segment({all_reduce(0, {8})}, {work(1), start(0), work(seconds), wait(1)})})[0];
  };
  // Work of 4 s, 1 to 5, all of it beside: 1 s more, to 6. Then 3 s are left to wait.
  EXPECT_DOUBLE_EQ(beside(4).exposed_seconds[0], 3);
  EXPECT_DOUBLE_EQ(beside(4).end_seconds, 9);
  // Work of 10 s, 1 to 11, of which 8 s are beside it: 2 s more, to 13.
  EXPECT_DOUBLE_EQ(beside(10).exposed_seconds[0], 0);
  EXPECT_DOUBLE_EQ(beside(10).end_seconds, 13);
  // Nothing beside it, nothing slowed.
  const Track alone =
      one_segment({all_reduce(0, {8})}, {work(1), start(0), wait(1, Item::Beside::kNothing), work(10)});
  EXPECT_DOUBLE_EQ(paper.run({alone})[0].end_seconds, 19);
}

// Along data 1 to 9; meanwhile the device waits for a sum along tensor, 1 to 5, and works from 5 to 7. That
// work alone is slowed, by a quarter of 2 s, to 7.5. Waiting loses nothing.
TEST(ClockByHand, WaitingBesideACollectiveIsNotSlowed) {
  const Paper paper("data:2 tensor:2", {.bytes_per_second = 1, .slowdown = 0.25});
  const Track track =
      one_segment({all_reduce(0, {8}), all_reduce(1, {4})},
                  {work(1), start(0), start(1), wait(2, Item::Beside::kNothing), work(2), wait(1)});
  const RankTime rank = paper.run({track})[0];
  EXPECT_DOUBLE_EQ(rank.exposed_seconds[1], 4);
  EXPECT_DOUBLE_EQ(rank.exposed_seconds[0], 1.5);
  EXPECT_DOUBLE_EQ(rank.end_seconds, 9);
}

// Logarithms of drawn times of 1 s are normal, with deviation 0.5 and mean −0.5² / 2, so that times are 1 s
// on average. Over 20,000 of them the three means are known to about 0.004, 0.0035 and 0.0025.
TEST(ClockByHand, JitterLeavesTheMeanOfWork) {
  constexpr int kDrawn = 20000;
  Track track = one_segment({}, {work(1)});
  actions_of(track).assign(kDrawn, {.segment = 0});
  const RankTime rank =
      Paper("data:1", {.bytes_per_second = 1}).run({track}, Events::kRecorded, {.jitter = 0.5, .seed = 3})[0];
  ASSERT_EQ(rank.events.size(), static_cast<size_t>(kDrawn));
  double sum = 0, squares = 0;
  for (const TraceEvent& event : rank.events) {
    const double logarithm = std::log(event.end - event.begin);
    sum += logarithm;
    squares += logarithm * logarithm;
  }
  const double mean = sum / kDrawn;
  EXPECT_NEAR(rank.work_seconds / kDrawn, 1, 0.02);
  EXPECT_NEAR(mean, -0.125, 0.02);
  EXPECT_NEAR(std::sqrt(squares / kDrawn - mean * mean), 0.5, 0.02);
}

// Two groups of states of 6 and 4 bytes, at 2 bytes a second, in slots of their own. The fetches go one after
// the other, 0 to 3 and 3 to 5. Work on the first runs from 3 to 4 and on the second from 5 to 6; the first
// is stored when it is done, but behind the second fetch, 5 to 8. Fetched into the same slot again, it comes
// behind that, 8 to 11, and is worked on from 11 to 12.
TEST(ClockByHand, StatesThatRestElsewhereComeAndGoInOrder) {
  const auto move = [](Action::Kind kind, double bytes, int slot) {
    return TrackAction{.kind = kind, .bytes = bytes, .staging = {slot}};
  };
  using Kind = Action::Kind;
  Track track;
  track.segments = {{work(1)}};
  actions_of(track) = {move(Kind::kFetch, 6, 0),       move(Kind::kFetch, 4, 1),
                       {.segment = 0, .staging = {0}}, move(Kind::kStore, 6, 0),
                       {.segment = 0, .staging = {1}}, move(Kind::kFetch, 6, 0),
                       {.segment = 0, .staging = {0}}};
  const RankTime rank = Paper("data:1", {.bytes_per_second = 1}, 2).run({track})[0];
  EXPECT_DOUBLE_EQ(rank.end_seconds, 12);
  EXPECT_DOUBLE_EQ(rank.work_seconds, 3);
  EXPECT_DOUBLE_EQ(rank.offload_seconds, 3 + 1 + 5);
  EXPECT_DOUBLE_EQ(rank.offload_bytes, 22);
}

// Two fetches of 6 bytes into one slot, 0 to 3 and 3 to 6. The host waits for the first before it asks for
// the second, at 3, and then has 2 s to give the next work, which the device has at 5 and has done at 6.
TEST(ClockByHand, HostsWaitForASlotThatIsInUse) {
  Track track;
  track.segments = {{work(1, 2)}};
  const TrackAction fetch{.kind = Action::Kind::kFetch, .bytes = 6, .staging = {0}};
  actions_of(track) = {fetch, fetch, {.segment = 0}};
  const Paper paper("data:1", {.bytes_per_second = 1}, 2);
  EXPECT_DOUBLE_EQ(paper.run({track})[0].end_seconds, 6);
  // Without any work the step ends when its host is done, at 3.
  actions_of(track).pop_back();
  EXPECT_DOUBLE_EQ(paper.run({track})[0].end_seconds, 3);
}

}  // namespace
}  // namespace trireme::sim
