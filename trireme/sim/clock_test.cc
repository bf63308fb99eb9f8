// The clock against timelines of pipelines that were proved elsewhere, and by hand.
#include "trireme/sim/clock.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "trireme/mesh/cluster_file.h"
#include "trireme/schedule/pipeline_table.h"
#include "trireme/schedule/play.h"
#include "trireme/schedule/timeline.h"

namespace trireme::sim {
namespace {

// Stages of one device each on hosts of their own, with a link that takes `message` seconds for anything.
Cluster stages_cluster(int stages, double message) {
  Cluster cluster = with_hosts(read_cluster("a100"), stages);
  cluster.hosts[0].devices = 1;
  for (LinkClass& link : cluster.links)
    link = {.name = link.name, .alpha_seconds = message, .bytes_per_second = 1e30};
  return cluster;
}

std::vector<TrackAction>& list_of(Track& track) {
  if (track.lists.empty()) track.lists.emplace_back();
  return track.lists[0].actions;
}

// A stage's turns as actions: what another stage makes is asked for a turn ahead and waited for, what another
// needs is sent.
Track track_of_stage(const Pipeline& pipeline, int stage, const ChunkTimes& times) {
  const TurnPlaces places(pipeline);
  const bool split = has_phase(pipeline, Phase::kWeight);
  Track track;
  for (const double seconds :
       {times.forward, times.backward + (split ? 0 : times.weight), times.weight, times.update}) {
    Work work;
    work.add(seconds, 0, 0);
    track.segments.push_back({{.kind = Item::Kind::kWork, .work = work}});
  }
  for (const ChunkTurn& turn : pipeline.order[stage]) {
    TrackAction run{.segment = static_cast<int>(turn.phase)};
    if (const auto needed = waits_for(pipeline, turn); needed && places.of(*needed).stage != stage) {
      run.waits.push_back(static_cast<int>(list_of(track).size()));
      list_of(track).push_back({.kind = Action::Kind::kReceive, .place = places.of(*needed).stage});
    }
    list_of(track).push_back(run);
    if (const auto next = awaited_by(pipeline, turn); next && places.of(*next).stage != stage)
      list_of(track).push_back({.kind = Action::Kind::kSend, .place = places.of(*next).stage});
  }
  return track;
}

TEST(Clock, TakesAsLongAsTheTimelineOfAPipeline) {
  for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zb_h1"}) {
    for (const double message : {0.0, 0.25}) {
      SCOPED_TRACE(fmt::format("{} {}", schedule, message));
      const Pipeline pipeline = make_pipeline(find_schedule(schedule), {.stages = 4, .microbatches = 8});
      const ChunkTimes times{.forward = 1, .backward = 1.5, .weight = 0.75};
      const Timeline line = timeline(pipeline, {.chunks = {times}, .message = message});
      const Mesh mesh = parse_mesh("pipe:4");
      const Cluster cluster = stages_cluster(4, message);
      const DeviceMap device_map(mesh, cluster);
      CollectiveTimes collectives(device_map, CollectiveModel::kClosedForms, {});
      std::vector<Track> tracks;
      for (int stage = 0; stage < 4; ++stage) tracks.push_back(track_of_stage(pipeline, stage, times));
      std::vector<SimulatedRank> runners;
      for (int stage = 0; stage < 4; ++stage) runners.push_back({stage, &tracks[stage]});
      const std::vector<RankTime> ended = run_clock(runners, Stands::kForItself, device_map, collectives);
      for (int stage = 0; stage < 4; ++stage)
        EXPECT_NEAR(ended[stage].end_seconds, line.stages[stage].back().end + (stage > 0 ? message : 0),
                    message + 1e-9);
      double end = 0, bubble = 0;
      for (const RankTime& time : ended) {
        end = std::max(end, time.end_seconds);
        bubble += time.bubble_seconds / 4;
      }
      if (message == 0) {
        EXPECT_NEAR(end, line.end, 1e-9);
        EXPECT_NEAR(bubble, line.end - ended[0].work_seconds, 1e-9);
      }
    }
  }
}

Item work_item(double seconds) {
  Item item;
  item.work.add(seconds, 0, 0);
  return item;
}

// Two ranks; the collective takes as long as its link says and begins when the later one comes.
TEST(Clock, ACollectiveBeginsWithTheLastAndGoesOnBesideWork) {
  Cluster cluster = read_cluster("a100");
  for (LinkClass& link : cluster.links) link = {.name = link.name, .bytes_per_second = 1};
  const Mesh mesh = parse_mesh("data:2");
  const DeviceMap device_map(mesh, cluster);
  CollectiveTimes times(device_map, CollectiveModel::kClosedForms, {});
  const auto track = [&](double before, double beside) {
    Track result;
    result.meetings = {{.kind = CollectiveKind::kAllReduce, .axis = 0, .calls = {3}, .bytes_sent = 3}};
    result.segments = {{work_item(before),
                        {.kind = Item::Kind::kStart, .meeting = 0},
                        work_item(beside),
                        {.kind = Item::Kind::kWait, .start = 1, .beside = Item::Beside::kWork}}};
    list_of(result) = {{.segment = 0}};
    return result;
  };
  const Track early = track(1, 1), late = track(4, 5);
  const std::vector<SimulatedRank> runners = {{0, &early}, {1, &late}};
  const std::vector<RankTime> ended = run_clock(runners, Stands::kForItself, device_map, times);
  EXPECT_DOUBLE_EQ(ended[0].end_seconds, 7);  // from 4 on, 3 seconds
  EXPECT_DOUBLE_EQ(ended[0].exposed_seconds[0], 5);
  EXPECT_DOUBLE_EQ(ended[0].bubble_seconds, 2);
  EXPECT_DOUBLE_EQ(ended[1].end_seconds, 9);
  EXPECT_DOUBLE_EQ(ended[1].exposed_seconds[0], 0);
  EXPECT_DOUBLE_EQ(ended[0].bytes[static_cast<size_t>(Reach::kInside)], 3);
}

TEST(Clock, AHostThatIssuesSlowlyHoldsTheDevice) {
  Work work;
  work.add(1, 0, 2);  // given at 2, done at 3
  work.add(1, 0, 2);  // given at 4
  EXPECT_DOUBLE_EQ(work.from_issue, 5);
  EXPECT_DOUBLE_EQ(work.seconds, 2);
}

TEST(Clock, RanksThatWaitForEverAreAnError) {
  const Mesh mesh = parse_mesh("pipe:2");
  const Cluster cluster = stages_cluster(2, 0);
  const DeviceMap device_map(mesh, cluster);
  CollectiveTimes times(device_map, CollectiveModel::kClosedForms, {});
  Track track;
  track.segments = {{work_item(1)}};
  list_of(track) = {{.kind = Action::Kind::kReceive, .place = 1}, {.segment = 0, .waits = {0}}};
  Track silent = track;
  list_of(silent) = {{.segment = 0}};
  const std::vector<SimulatedRank> runners = {{0, &track}, {1, &silent}};
  EXPECT_THROW(run_clock(runners, Stands::kForItself, device_map, times), Error);
}

}  // namespace
}  // namespace trireme::sim
