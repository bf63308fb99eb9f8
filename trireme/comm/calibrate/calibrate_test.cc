// Links are measured on real ranks, all get the same, and what the programs send is what they say.
#include "trireme/comm/calibrate/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "trireme/base/error.h"
#include "trireme/comm/calibrate/combine.h"
#include "trireme/comm/calibrate/programs.h"
#include "trireme/comm/calibrate/settling.h"
#include "trireme/comm/collective/algorithms.h"

namespace trireme::comm {
namespace {

using testing::HasSubstr;

class TemporaryFile {
 public:
  TemporaryFile()
      : path_((std::filesystem::temp_directory_path() / ("links_" + std::to_string(getpid()) + ".json"))
                  .string()) {}
  ~TemporaryFile() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Calibrate, AllRanksGetTheSameAndUseIt) {
  for (const int ranks : {2, 3}) {
    std::mutex mutex;
    std::vector<LinkModel> models;
    run_rank_threads(ranks, [&](Context& context) {
      LinkModel model = measure_links(context, {});
      context.set_links(model);
      Group world = context.world();
      float value = 1;
      for (const Algorithm algorithm : {Algorithm::automatic, Algorithm::ring}) {
        Handle handle = world.all_reduce(&value, 1, DType::f32, ReduceOp::max, {.algorithm = algorithm});
        handle.wait();
        EXPECT_GT(handle.report().predicted_seconds, 0);
      }
      const std::lock_guard lock(mutex);
      models.push_back(std::move(model));
    });
    ASSERT_EQ(static_cast<int>(models.size()), ranks);
    for (const LinkModel& model : models) EXPECT_EQ(model, models[0]);
    EXPECT_EQ(models[0].transport, "inproc");
    EXPECT_EQ(models[0].ranks, ranks);
    for (const CurvePoint& point : models[0].inside.message.points()) EXPECT_GT(point.seconds, 0);
    for (const CurvePoint& point : models[0].inside.exchange.points()) EXPECT_GT(point.seconds, 0);
    // A difference of two times, which a busy machine may leave nothing of; but it was measured.
    EXPECT_FALSE(models[0].vectors.add.empty());
    EXPECT_GT(models[0].vectors.message.seconds(1 << 20), 0);
    // Ranks that outnumber cores take turns, which shows in whole operations alone.
    const bool crowded = ranks > static_cast<int>(std::thread::hardware_concurrency());
    EXPECT_EQ(models[0].vectors.hand_on.empty(), crowded);
    for (const Algorithm algorithm : algorithms_for(Collective::all_reduce, {})) {
      const Curve* const curve = timed_curve(models[0], Collective::all_reduce, algorithm);
      ASSERT_EQ(curve != nullptr, crowded) << name(algorithm);
      if (crowded) {
        EXPECT_GT(curve->seconds(8), 0) << name(algorithm);
      }
    }
  }
}

TEST(Calibrate, AFullOnePrefersTheSameOnAllRanks) {
  std::mutex mutex;
  std::vector<LinkModel> models;
  run_rank_threads(2, [&](Context& context) {
    LinkModel model =
        measure_links(context, {.thoroughness = Thoroughness::full, .collective = Collective::all_reduce});
    const std::lock_guard lock(mutex);
    models.push_back(std::move(model));
  });
  EXPECT_EQ(models[0], models[1]);
  const std::vector<Preference>& ways = models[0].preferred.at(Collective::all_reduce);
  EXPECT_EQ(ways.front().bytes, 8u);
  EXPECT_EQ(ways.back().bytes, size_t{64 << 20});
  EXPECT_EQ(models[0].preferred.size(), 1u);
  const std::vector<Algorithm> possible = algorithms_for(Collective::all_reduce, {});
  for (const Preference& way : ways) EXPECT_THAT(possible, testing::Contains(way.algorithm)) << way.bytes;
}

TEST(Calibrate, GroupsOfSomeRanksChooseForThemselves) {
  run_rank_threads(4, [](Context& context) {
    context.set_links(measure_links(context, {}));
    const bool low = context.rank() < 2;
    Group pair = context.group(low ? "low" : "high", low ? std::vector{0, 1} : std::vector{2, 3});
    std::vector<float> values(100'000, 1);
    pair.all_reduce(values.data(), static_cast<int64_t>(values.size()), DType::f32, ReduceOp::sum).wait();
    EXPECT_EQ(values.back(), 2);
  });
}

TEST(Calibrate, OneRankAloneIsRefused) {
  EXPECT_THROW(run_rank_threads(1, [](Context& context) { measure_links(context, {}); }), Error);
}

TEST(Calibrate, FilesAreReadByAllOrRefusedByAll) {
  const TemporaryFile file;
  LinkModel model;
  model.transport = "inproc";
  model.ranks = 2;
  model.inside.message = Curve::line(1e-6, 1e-9);
  write_link_models(file.path(), {&model, 1});
  run_rank_threads(2, [&](Context& context) { EXPECT_EQ(read_links(context, file.path()), model); });

  const auto refusals = [&](MemoryKind memory) {
    std::mutex mutex;
    std::vector<std::string> texts;
    run_rank_threads(2, [&](Context& context) {
      try {
        read_links(context, file.path(), memory);
      } catch (const Error& error) {
        const std::lock_guard lock(mutex);
        texts.push_back(error.what());
      }
    });
    return texts;
  };
  const std::vector<std::string> missing = refusals(MemoryKind::ordinary);
  ASSERT_EQ(missing.size(), 2u);
  EXPECT_THAT(missing[1], HasSubstr("nothing was measured of inproc with ordinary memory"));
  std::ofstream(file.path()) << "[{\"transport\": 1}]";
  const std::vector<std::string> damaged = refusals(MemoryKind::transport);
  ASSERT_EQ(damaged.size(), 2u);
  EXPECT_EQ(damaged[0], damaged[1]);
  EXPECT_THAT(damaged[0], HasSubstr("transport is not a text"));
}

TEST(Calibrate, MoreBytesTakeNoLessTime) {
  LinkModel model;
  model.inside.exchange = Curve({{8, 13e-6}, {512, 4e-6}, {4096, 9e-6}});
  EXPECT_EQ(median_of({&model, 1}).inside.exchange, Curve({{8, 4e-6}, {512, 4e-6}, {4096, 9e-6}}));
}

TEST(Calibrate, MediansPointByPoint) {
  std::vector<LinkModel> models(3);
  for (int i = 0; i < 3; ++i) {
    models[i].operation_seconds = 3 - i;
    models[i].inside.message = Curve({{8, i == 1 ? 50.0 : 1.0}, {16, 2.0 + i}});
    models[i].vectors.message = Curve({{8, i == 2 ? 9.0 : 3.0}});
    models[i].vectors.hand_on = Curve({{8, i == 0 ? 9.0 : 4.0}});
    models[i].timed[Collective::all_reduce][Algorithm::native] = Curve({{8, 1.0 * i}});
  }
  const LinkModel median = median_of(models);
  EXPECT_EQ(median.operation_seconds, 2);
  EXPECT_EQ(median.inside.message, Curve({{8, 1.0}, {16, 3.0}}));
  EXPECT_EQ(median.timed.at(Collective::all_reduce).at(Algorithm::native), Curve({{8, 1.0}}));
  EXPECT_EQ(median.vectors.message, Curve({{8, 3.0}}));
  EXPECT_EQ(median.vectors.hand_on, Curve({{8, 4.0}}));
  EXPECT_TRUE(median.reduce.empty());
}

int sends_of(const Steps& steps, int rank) {
  int sends = 0;
  for (const Step& step : steps.of(rank)) sends += step.kind == Step::Kind::send ? 1 : 0;
  return sends;
}

TEST(CalibrationPrograms, PairsShareAHostOrDoNot) {
  const std::vector<int> hosts = {0, 0, 1, 0, 1, 0, 1};
  const std::vector<RankPair> inside = pairs_inside(hosts);
  ASSERT_EQ(inside.size(), 3u);
  EXPECT_EQ(inside[1].first, 2);
  EXPECT_EQ(inside[1].second, 4);
  EXPECT_EQ(inside[2].first, 3);
  const std::vector<RankPair> across = pairs_across(hosts);
  ASSERT_EQ(across.size(), 1u);
  EXPECT_EQ(across[0].second, 2);
  EXPECT_TRUE(pairs_across(std::vector{0, 0}).empty());
}

TEST(PassesInVain, LongVectorsSettleUnlessTheyTakeLong) {
  EXPECT_EQ(passes_in_vain(1 << 20, 1e-4), 1);
  EXPECT_EQ(passes_in_vain(4 << 20, 1e-4), 32);
  EXPECT_EQ(passes_in_vain(64 << 20, 12e-3), 25);
  EXPECT_EQ(passes_in_vain(64 << 20, 2), 2);
}

TEST(CalibrationPrograms, SendWhatTheySay) {
  const std::vector<RankPair> pairs = {{0, 1}};
  EXPECT_EQ(sends_of(ping_pong(3, pairs, 5), 0), 3);
  EXPECT_EQ(sends_of(ping_pong(3, pairs, 5), 1), 2);
  EXPECT_EQ(sends_of(ping_pong(3, pairs, 5), 2), 0);
  EXPECT_EQ(sends_of(bursts(2, pairs, 4, 4), 0), 8);
  EXPECT_EQ(sends_of(exchanges(2, pairs, 4, 8, Action::add), 1), 32);
  EXPECT_EQ(sends_of(mirrored(2, pairs, 2, 8), 0), 16);
  EXPECT_EQ(sends_of(vector_exchange(2, pairs, 8, Action::copy, Action::copy), 0), 8);
  EXPECT_EQ(sends_of(handed_back(2, pairs), 1), 1);
}

}  // namespace
}  // namespace trireme::comm
