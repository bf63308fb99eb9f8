// Collectives are timed on real ranks, and all ranks get the same table.
#include "trireme/comm/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>

#include "trireme/base/error.h"
#include "trireme/comm/collective/algorithms.h"

namespace trireme::comm {
namespace {

using testing::HasSubstr;

std::vector<LinkTable> measure_on(int ranks, const CalibrationOptions& options,
                                  const std::function<void(Context&)>& then = {}) {
  std::mutex mutex;
  std::vector<LinkTable> tables;
  run_rank_threads(ranks, [&](Context& context) {
    LinkTable table = measure_links(context, options);
    context.set_links(table);
    if (then) then(context);
    const std::lock_guard lock(mutex);
    tables.push_back(std::move(table));
  });
  return tables;
}

TEST(Calibrate, AllRanksGetTheSameAndUseIt) {
  for (const int ranks : {2, 3}) {
    const std::vector<LinkTable> tables = measure_on(ranks, {}, [](Context& context) {
      Group world = context.world();
      float value = 1;
      for (const Algorithm algorithm : {Algorithm::automatic, Algorithm::ring}) {
        Handle handle = world.all_reduce(&value, 1, DType::f32, ReduceOp::max, {.algorithm = algorithm});
        handle.wait();
        EXPECT_GT(handle.report().predicted_seconds, 0);
      }
    });
    ASSERT_EQ(static_cast<int>(tables.size()), ranks);
    for (const LinkTable& table : tables) EXPECT_EQ(to_json({&table, 1}), to_json({&tables[0], 1}));
    EXPECT_EQ(tables[0].transport, "inproc");
    EXPECT_EQ(tables[0].ranks, ranks);
    EXPECT_TRUE(timed_curve(tables[0], Collective::barrier, Algorithm::butterfly));
    for (const Algorithm algorithm : algorithms_for(Collective::all_reduce, std::vector<int>(ranks, 0))) {
      const Curve* curve = timed_curve(tables[0], Collective::all_reduce, algorithm);
      ASSERT_TRUE(curve) << name(algorithm);
      for (const TimedPoint& point : *curve) EXPECT_GT(point.seconds, 0);
    }
    EXPECT_GT(tables[0].link.alpha_seconds + tables[0].link.beta_seconds_per_byte, 0);
  }
}

TEST(Calibrate, AFullOneTimesWhatTrainingUses) {
  // As little as there can be: each algorithm once.
  const std::vector<LinkTable> tables =
      measure_on(2, {.thoroughness = Thoroughness::full, .memory = MemoryKind::ordinary, .seconds = 1e-3});
  for (const Collective collective : {Collective::all_reduce, Collective::reduce_scatter,
                                      Collective::all_gather, Collective::broadcast, Collective::barrier}) {
    EXPECT_TRUE(tables[0].timed.contains(collective)) << name(collective);
  }
  EXPECT_EQ(tables[0].memory, MemoryKind::ordinary);
  const std::vector<LinkTable> one = measure_on(2, {.collective = Collective::reduce});
  EXPECT_TRUE(one[0].timed.contains(Collective::reduce));
  EXPECT_FALSE(one[0].timed.contains(Collective::all_reduce));
}

TEST(Calibrate, ASlowLinkIsTimedAsFarAsItCanBeFitted) {
  std::mutex mutex;
  LinkTable table;
  run_rank_threads(
      2,
      [&](Context& context) {
        LinkTable measured = measure_links(context, {.thoroughness = Thoroughness::full, .seconds = 1e-3});
        const std::lock_guard lock(mutex);
        table = std::move(measured);
      },
      60, parse_emulated_link("latency=1us,bandwidth=40Mbit"));
  // The time was up before, but of one size alone nothing could be said of larger vectors.
  const Curve* curve = timed_curve(table, Collective::all_reduce, Algorithm::ring);
  ASSERT_EQ(curve->size(), 2u);
  EXPECT_EQ(curve->back().bytes, size_t{64} << 10);
  // A byte takes 200 ns; generous, for a machine that is busy.
  EXPECT_GT(table.link.beta_seconds_per_byte, 50e-9);
  EXPECT_LT(table.link.beta_seconds_per_byte, 2000e-9);
  EXPECT_EQ(table.timed.at(Collective::broadcast).begin()->second.back().bytes, 8u);
}

TEST(Calibrate, OneRankAloneIsRefused) {
  EXPECT_THROW(run_rank_threads(1, [](Context& context) { measure_links(context, {}); }), Error);
}

TEST(Calibrate, FilesAreReadByAllOrRefusedByAll) {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("links_" + std::to_string(getpid()) + ".json")).string();
  write_link_tables(path, measure_on(2, {}));
  run_rank_threads(2, [&](Context& context) { EXPECT_EQ(read_links(context, path).transport, "inproc"); });
  const auto refusal = [&](const std::function<void(Context&)>& program) -> std::string {
    std::atomic<int> refused = 0;
    try {
      run_rank_threads(2, [&](Context& context) {
        try {
          program(context);
        } catch (const Error&) {
          ++refused;
          throw;
        }
      });
    } catch (const Error& error) {
      EXPECT_EQ(refused, 2);
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal([&](Context& context) { read_links(context, path, MemoryKind::ordinary); }),
              HasSubstr("nothing was measured of inproc with ordinary memory"));
  std::filesystem::remove(path);
  EXPECT_THAT(refusal([&](Context& context) { read_links(context, path); }), HasSubstr(path));
}

}  // namespace
}  // namespace trireme::comm
