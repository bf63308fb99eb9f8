// The model file, and that the choice follows the costs.
#include "trireme/comm/collective/choose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "trireme/base/error.h"
#include "trireme/comm/collective/algorithms.h"
#include "trireme/comm/collective/choice.h"

namespace trireme::comm {
namespace {

using testing::HasSubstr;

LinkModel network() {
  LinkModel model;
  model.transport = "tcp";
  model.ranks = 8;
  model.ports = Ports::one_each_way;
  model.inside.message = Curve::line(10e-6, 1e-9);
  model.reduce = Curve::line(0, 1e-10);
  return model;
}

Call all_reduce(int64_t count) {
  return {.collective = Collective::all_reduce, .dtype = DType::f32, .count = count};
}

TEST(Curve, IsStraightBetweenWhatWasMeasured) {
  const Curve curve({{100, 1.0}, {200, 3.0}, {400, 4.0}});
  EXPECT_DOUBLE_EQ(curve.seconds(0), 1.0);
  EXPECT_DOUBLE_EQ(curve.seconds(100), 1.0);
  EXPECT_DOUBLE_EQ(curve.seconds(150), 2.0);
  EXPECT_DOUBLE_EQ(curve.seconds(200), 3.0);
  EXPECT_DOUBLE_EQ(curve.seconds(300), 3.5);
  EXPECT_DOUBLE_EQ(curve.seconds(800), 6.0);
  EXPECT_DOUBLE_EQ(Curve({{100, 2.0}}).seconds(1000), 2.0);
}

TEST(Choose, FewRoundsForSmallVectorsAndFewBytesForLargeOnes) {
  EXPECT_EQ(choose(all_reduce(2), 8, {}, network(), false).algorithm, Algorithm::butterfly);
  EXPECT_EQ(choose(all_reduce(100000), 8, {}, network(), false).algorithm, Algorithm::reduce_scatter_gather);
  // Not a power of two: folding costs a whole vector each way, which the ring does not pay.
  EXPECT_EQ(choose(all_reduce(10 << 20), 7, {}, network(), false).algorithm, Algorithm::ring);
}

TEST(Choose, TwoLevelsWhereTheLinkBetweenHostsIsSlow) {
  LinkModel model = network();
  model.inside.message = Curve::line(1e-6, 1e-10);
  model.across.message = Curve::line(50e-6, 1e-8);
  const std::vector<int> hosts = {0, 0, 1, 1};
  const Choice choice = choose(all_reduce(1 << 20), 4, hosts, model, false);
  EXPECT_EQ(choice.algorithm, Algorithm::hierarchical);
  Call ring = all_reduce(1 << 20);
  ring.algorithm = Algorithm::ring;
  // All that counts is what the link carries each way: one vector, against one and a half.
  const double carried = (4 << 20) * 1e-8;
  EXPECT_NEAR(choice.predicted_seconds, carried, 0.1 * carried);
  EXPECT_NEAR(choose(ring, 4, hosts, model, false).predicted_seconds, 1.5 * carried, 0.15 * carried);
}

TEST(Choose, ALinkThatLetsSingleMessagesPassIsStillSlow) {
  LinkModel model = network();
  model.inside.message = Curve::line(1e-6, 1e-10);
  model.across.message = Curve::line(1e-6, 1e-9);  // on its own, through a token bucket
  model.across.gap = Curve::line(0, 1e-8);
  const Choice choice = choose(all_reduce(1 << 20), 4, std::vector{0, 0, 1, 1}, model, false);
  const double carried = (4 << 20) * 1e-8;
  EXPECT_NEAR(choice.predicted_seconds, carried, 0.1 * carried);
}

TEST(Choose, NeverWorseThanAnyFixedAlgorithm) {
  for (int c = 0; c < static_cast<int>(Collective::message); ++c) {
    const auto collective = static_cast<Collective>(c);
    for (const int ranks : {1, 2, 5, 8}) {
      for (const int64_t count : {0, 1, 1000, 1000000}) {
        Call call{.collective = collective, .dtype = DType::f32, .count = count};
        const Choice choice = choose(call, ranks, {}, network(), false);
        std::vector<double> fixed;
        for (const Algorithm algorithm : algorithms_of(collective)) {
          call.algorithm = algorithm;
          fixed.push_back(choose(call, ranks, {}, network(), false).predicted_seconds);
        }
        EXPECT_EQ(choice.predicted_seconds, *std::min_element(fixed.begin(), fixed.end()))
            << to_text(call) << " of " << ranks;
      }
    }
  }
}

TEST(Choose, CutsAChainInSegments) {
  const Call call{.collective = Collective::broadcast,
                  .algorithm = Algorithm::ring,
                  .dtype = DType::f32,
                  .count = 1 << 22};
  const Choice choice = choose(call, 8, {}, network(), false);
  EXPECT_GT(choice.segment_bytes, size_t{16 << 10});
  EXPECT_LT(choice.segment_bytes, size_t{4 << 20});
  // Near n β + fill; uncut it would be 7 n β.
  EXPECT_LT(choice.predicted_seconds, 2 * (16 << 20) * 1e-9);
}

TEST(Choose, NativeWhereItIsFasterOrUnknown) {
  LinkModel model = network();
  EXPECT_EQ(choose(all_reduce(2), 8, {}, model, true).algorithm, Algorithm::native);
  model.timed[Collective::all_reduce][Algorithm::native] = Curve({{8, 1e-6}, {1 << 20, 1.0}});
  const Choice small = choose(all_reduce(2), 8, {}, model, true);
  EXPECT_EQ(small.algorithm, Algorithm::native);
  EXPECT_DOUBLE_EQ(small.predicted_seconds, 1e-6);
  EXPECT_NE(choose(all_reduce(1 << 18), 8, {}, model, true).algorithm, Algorithm::native);
  EXPECT_NE(choose(all_reduce(2), 8, {}, model, false).algorithm, Algorithm::native);
}

TEST(Choose, WhatWasTimedCountsForGroupsOfAsManyRanks) {
  LinkModel model = network();
  model.ranks = 4;
  TimedOperations& timed = model.timed[Collective::all_reduce];
  for (const Algorithm algorithm : algorithms_for(Collective::all_reduce, {})) {
    timed[algorithm] = Curve({{8, algorithm == Algorithm::tree ? 2.0 : 3.0}});
  }
  const Choice choice = choose(all_reduce(2), 4, {}, model, false);
  EXPECT_EQ(choice.algorithm, Algorithm::tree);
  EXPECT_EQ(choice.predicted_seconds, 2);
  EXPECT_EQ(choice.segment_bytes, kDefaultSegmentBytes);
  Call ring = all_reduce(2);
  ring.algorithm = Algorithm::ring;
  EXPECT_EQ(choose(ring, 4, {}, model, false).predicted_seconds, 3);
  EXPECT_EQ(predict_call(ring, kDefaultSegmentBytes, 4, {}, model), 3);
  // What was timed were these segments and these ranks.
  EXPECT_LT(predict_call(ring, 16 << 10, 4, {}, model), 1);
  EXPECT_LT(choose(ring, 3, {}, model, false).predicted_seconds, 1);
  EXPECT_EQ(choose(all_reduce(0), 4, {}, model, false).predicted_seconds, model.operation_seconds);
  timed[Algorithm::native] = Curve({{8, 1.0}});
  EXPECT_EQ(choose(all_reduce(2), 4, {}, model, true).algorithm, Algorithm::native);
  timed[Algorithm::native] = Curve({{8, 2.1}});
  EXPECT_EQ(choose(all_reduce(2), 4, {}, model, true).algorithm, Algorithm::tree);
  timed.erase(Algorithm::naive);
  EXPECT_LT(choose(all_reduce(2), 4, {}, model, false).predicted_seconds, 1);
}

TEST(Choose, WhatIsPreferredComesFirst) {
  LinkModel model = network();
  model.ranks = 4;
  model.preferred[Collective::all_reduce] = {{1 << 10, Algorithm::tree, 64 << 10},
                                             {1 << 20, Algorithm::double_tree, 256 << 10},
                                             {64 << 20, Algorithm::native, 0}};
  const Choice small = choose(all_reduce(2), 4, {}, model, false);
  EXPECT_EQ(small.algorithm, Algorithm::tree);
  EXPECT_EQ(small.segment_bytes, size_t{64 << 10});
  Call tree = all_reduce(2);
  tree.algorithm = Algorithm::tree;
  EXPECT_EQ(small.predicted_seconds, predict_call(tree, 64 << 10, 4, {}, model));
  // The nearest by its factor: 100 KiB is a tenth of 1 MiB, but a hundred times 1 KiB.
  EXPECT_EQ(choose(all_reduce(25'600), 4, {}, model, false).algorithm, Algorithm::double_tree);
  EXPECT_EQ(choose(all_reduce(1 << 28), 4, {}, model, true).algorithm, Algorithm::native);

  // Not for others: what cannot be run here, other groups, an algorithm that was named, nothing to send.
  const LinkModel without = network();
  const auto same = [](const Choice& a, const Choice& b) {
    return a.algorithm == b.algorithm && a.segment_bytes == b.segment_bytes;
  };
  EXPECT_TRUE(same(choose(all_reduce(1 << 28), 4, {}, model, false),
                   choose(all_reduce(1 << 28), 4, {}, without, false)));
  EXPECT_TRUE(same(choose(all_reduce(2), 3, {}, model, false), choose(all_reduce(2), 3, {}, without, false)));
  EXPECT_EQ(choose(tree, 3, {}, model, false).algorithm, Algorithm::tree);
  EXPECT_TRUE(same(choose(all_reduce(0), 4, {}, model, false), choose(all_reduce(0), 4, {}, without, false)));
}

TEST(Choose, ContendersAreNearTheBestAndAllDifferent) {
  LinkModel model = network();
  for (const int64_t count : {2, 1'000, 1'000'000}) {
    const std::vector<Choice> ways = contenders(all_reduce(count), 2, {}, model, false, 1.3);
    const Choice best = choose(all_reduce(count), 2, {}, model, false);
    EXPECT_EQ(ways[0].predicted_seconds, best.predicted_seconds);
    for (size_t i = 1; i < ways.size(); ++i) {
      EXPECT_LE(ways[i].predicted_seconds, 1.3 * best.predicted_seconds);
      EXPECT_TRUE(ways[i].predicted_seconds != ways[i - 1].predicted_seconds ||
                  ways[i].segment_bytes != ways[i - 1].segment_bytes);
    }
    EXPECT_LT(contenders(all_reduce(count), 8, {}, model, false, 1.3).size(),
              contenders(all_reduce(count), 8, {}, model, false, 100).size());
  }
  // Native counts where it was timed, and no other way where that is far better.
  EXPECT_NE(contenders(all_reduce(2), 2, {}, model, true, 1.3)[0].algorithm, Algorithm::native);
  model.timed[Collective::all_reduce][Algorithm::native] = Curve({{8, 1e-9}});
  const std::vector<Choice> ways = contenders(all_reduce(2), 2, {}, model, true, 1.3);
  ASSERT_EQ(ways.size(), 1u);
  EXPECT_EQ(ways[0].algorithm, Algorithm::native);
}

TEST(Choose, AGapBelowTheMessageFavoursManyAtOnce) {
  // Latency that nobody has to sit through: sending to all at once beats one after another.
  LinkModel model = network();
  model.inside.message = Curve::line(100e-6, 0);
  model.inside.gap = Curve::line(1e-6, 0);
  const Choice choice = choose(all_reduce(2), 8, {}, model, false);
  EXPECT_EQ(choice.algorithm, Algorithm::naive);
  EXPECT_NEAR(choice.predicted_seconds, 107e-6, 2e-6);
}

TEST(LinkModel, FileReadsBackAsWritten) {
  LinkModel rich = network();
  rich.cores = 2;
  rich.operation_seconds = 3e-7;
  rich.across.message = Curve({{8, 1e-5}, {4096, 2.5e-5}});
  rich.across.gap = Curve({{8, 1e-6}});
  rich.timed[Collective::all_reduce] = {{Algorithm::native, Curve({{8, 1e-6}})},
                                        {Algorithm::ring, Curve({{8, 2e-6}})}};
  rich.memory = MemoryKind::ordinary;
  rich.inside.exchange = Curve({{8, 3e-6}});
  rich.add = Curve({{8, 1e-7}});
  rich.vectors = {.message = Curve({{1 << 20, 4e-6}}),
                  .exchange = Curve({{1 << 20, 1e-3}}),
                  .add = Curve({{1 << 20, 2e-3}}),
                  .reduce = {},
                  .hand_on = Curve({{1 << 20, 3e-3}})};
  rich.preferred[Collective::broadcast] = {{8, Algorithm::native, 0}, {1 << 20, Algorithm::tree, 1 << 16}};
  const std::vector<LinkModel> models = {network(), rich};
  const std::string path =
      (std::filesystem::temp_directory_path() / ("links_" + std::to_string(getpid()) + ".json")).string();
  write_link_models(path, models);
  EXPECT_EQ(read_link_models(path), models);
  std::filesystem::remove(path);
}

TEST(LinkModel, MessagesOfLargeVectorsCostTheirShareOfAPass) {
  LinkModel model = network();
  model.inside.exchange = Curve::line(10e-6, 2e-9);
  model.add = Curve::line(0, 1e-9);
  model.vectors.exchange = Curve({{1 << 20, 4e-3}, {2 << 20, 8e-3}});
  model.vectors.add = Curve({{1 << 20, 5e-3}, {2 << 20, 10e-3}});
  const auto both = [&](size_t vector_bytes) {
    const Transfer transfer = costs_of(model, {}, vector_bytes).transfer(0, 1, 1 << 16, false);
    return transfer.send_seconds + transfer.receive_seconds;
  };
  EXPECT_NEAR(both(1 << 19), 10e-6 + (1 << 16) * 2e-9, 1e-12);
  EXPECT_NEAR(both(1 << 20), 10e-6 + 4e-3 / 16, 1e-12);
  model.vectors.message = Curve({{1 << 20, 30e-6}, {2 << 20, 20e-6}});
  EXPECT_NEAR(both(1 << 19), 10e-6 + (1 << 16) * 2e-9, 1e-12);
  EXPECT_NEAR(both(1 << 20), 30e-6 + 4e-3 / 16, 1e-12);
  EXPECT_NEAR(both(8 << 20), 20e-6 + 4e-3 / 16, 1e-12);  // level: it is no pass
  EXPECT_NEAR(costs_of(model, {}, 1 << 19).add_seconds(1 << 16), (1 << 16) * 1e-9, 1e-12);
  EXPECT_NEAR(costs_of(model, {}, 1 << 20).add_seconds(1 << 16), 1e-3 / 16, 1e-12);
}

TEST(LinkModel, WhatIsHandedOnTakesEachEndMoreOrLess) {
  LinkModel model = network();
  model.inside.exchange = Curve::line(10e-6, 2e-9);
  model.vectors.exchange = Curve({{1 << 20, 4e-3}, {2 << 20, 8e-3}});
  const auto handed_on = [&](double pass_seconds) {
    model.vectors.hand_on = Curve({{1 << 20, pass_seconds}, {2 << 20, 2 * pass_seconds}});
    return costs_of(model, {}, 1 << 20).transfer(0, 1, 1 << 16, true);
  };
  const Transfer plain = costs_of(model, {}, 1 << 20).transfer(0, 1, 1 << 16, true);
  EXPECT_EQ(plain.send_seconds, costs_of(model, {}, 1 << 20).transfer(0, 1, 1 << 16, false).send_seconds);
  for (const double pass_seconds : {3.2e-3, 4.8e-3}) {
    const double times = (10e-6 + pass_seconds / 16) / (10e-6 + 4e-3 / 16);
    EXPECT_NEAR(handed_on(pass_seconds).send_seconds, plain.send_seconds * times, 1e-12);
    EXPECT_NEAR(handed_on(pass_seconds).receive_seconds, plain.receive_seconds * times, 1e-12);
  }
  // Of short vectors it was not measured.
  const Costs of_short = costs_of(model, {}, 1 << 19);
  EXPECT_EQ(of_short.transfer(0, 1, 1 << 10, true).send_seconds,
            of_short.transfer(0, 1, 1 << 10, false).send_seconds);
}

TEST(LinkModel, NearestNumberOfRanksIsUsed) {
  std::vector<LinkModel> models(3, network());
  models[0].ranks = 2;
  models[1].ranks = 4;
  models[2].transport = "shm";
  EXPECT_EQ(find_link_model(models, "tcp", 2), &models[0]);
  EXPECT_EQ(find_link_model(models, "tcp", 16), &models[1]);
  EXPECT_EQ(find_link_model(models, "mpi", 2), nullptr);
  EXPECT_EQ(find_link_model(models, "tcp", 2, MemoryKind::ordinary), nullptr);
  models[1].memory = MemoryKind::ordinary;
  EXPECT_EQ(find_link_model(models, "tcp", 2, MemoryKind::ordinary), &models[1]);
}

TEST(LinkModel, BadFilesAreRefusedWithTheirPlace) {
  const auto message_of = [](const std::string& json) {
    try {
      parse_link_models(json, "links.json");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const auto with = [](const std::string& points) {
    return R"([{"transport": "tcp", "ranks": 2, "inside": {"message": )" + points + "}}]";
  };
  EXPECT_EQ(message_of(with(R"([{"bytes": 8, "seconds": 1e-6}])")), "no error");
  EXPECT_THAT(message_of("[{"), HasSubstr("links.json is not JSON; measure the links again"));
  EXPECT_THAT(message_of("{}"), HasSubstr("links.json is not a list with something in it"));
  EXPECT_THAT(message_of(R"([{"ranks": 2}])"), HasSubstr("links.json[0] has no \"transport\""));
  EXPECT_THAT(message_of(with("[]")), HasSubstr("links.json[0].inside.message is not a list"));
  EXPECT_THAT(message_of(with(R"([{"bytes": 8, "seconds": -1}])")),
              HasSubstr("links.json[0].inside.message[0].seconds is -1, expected a number from 0 to"));
  EXPECT_THAT(message_of(with(R"([{"bytes": 8, "seconds": "1"}])")),
              HasSubstr("seconds is string, expected"));
  EXPECT_THAT(message_of(with(R"([{"bytes": 8.5, "seconds": 1}])")), HasSubstr("expected a whole number"));
  EXPECT_THAT(message_of(with(R"([{"bytes": 8, "seconds": 1}, {"bytes": 8, "seconds": 2}])")),
              HasSubstr("message[1] has 8 bytes after 8"));
  EXPECT_THAT(message_of(R"([{"transport": "tcp", "ranks": 2, "ports": "many",
                              "inside": {"message": [{"bytes": 8, "seconds": 1}]}}])"),
              HasSubstr("ports is not one of one, one_each_way, unlimited"));
  EXPECT_THAT(message_of(R"([{"transport": "tcp", "ranks": 2, "memory": "fast",
                              "inside": {"message": [{"bytes": 8, "seconds": 1}]}}])"),
              HasSubstr("memory is not one of transport, ordinary"));
  EXPECT_THAT(message_of(R"([{"transport": "tcp", "ranks": 2,
                              "inside": {"message": [{"bytes": 8, "seconds": 1}]}, "timed": {"sum": 1}}])"),
              HasSubstr("timed.sum is not the name of a collective"));
  EXPECT_THAT(message_of(R"([{"transport": "tcp", "ranks": 2,
                              "inside": {"message": [{"bytes": 8, "seconds": 1}]},
                              "timed": {"all_reduce": {"fast": []}}}])"),
              HasSubstr("timed.all_reduce.fast is not the name of an algorithm"));
  const auto preferring = [&](const std::string& way) {
    return message_of(
        R"([{"transport": "shm", "ranks": 2, "inside": {"message": [{"bytes": 8, "seconds": 1}]},
                        "preferred": {"all_gather": [)" +
        way + "]}}]");
  };
  for (const char* algorithm : {"fast", "automatic", "double_tree"}) {
    EXPECT_THAT(
        preferring(fmt::format(R"({{"bytes": 8, "algorithm": "{}", "segment_bytes": 64}})", algorithm)),
        HasSubstr("preferred.all_gather[0].algorithm is not an algorithm of all_gather"));
  }
  EXPECT_THAT(preferring(R"({"bytes": 8, "algorithm": "ring", "segment_bytes": 0})"),
              HasSubstr("preferred.all_gather[0] has segments of no bytes"));
  EXPECT_THROW(read_link_models("/nonexistent/links.json"), Error);
}

}  // namespace
}  // namespace trireme::comm
