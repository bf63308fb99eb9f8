#include "trireme/place/queues.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

namespace trireme::place {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

TEST(Queues, TakeRequestsInTheirOrder) {
  // Server 0 takes 2 s, and hands on to server 1, which takes 1 s.
  const Flow flow = {{.inputs = {}, .routes = {{0, 1, 2}}}, {.inputs = {0}, .routes = {{1, 1, 1}}}};
  const QueueReport report = simulate_queues({flow}, 2, {{0, 0}, {1, 0}, {10, 0}});
  EXPECT_THAT(report.latency, ElementsAre(3, 4, 3));
  EXPECT_EQ(report.seconds, 13);
  EXPECT_THAT(report.busy, ElementsAre(DoubleNear(6 / 13.0, 1e-12), DoubleNear(3 / 13.0, 1e-12)));
}

TEST(Queues, AnOpWaitsForAllOfItsInputs) {
  const Flow flow = {{.inputs = {}, .routes = {{0, 1, 2}}},
                     {.inputs = {}, .routes = {{1, 1, 5}}},
                     {.inputs = {0, 1}, .routes = {{2, 1, 1}}}};
  EXPECT_THAT(simulate_queues({flow}, 3, {{0, 0}}).latency, ElementsAre(6));
}

// The input that comes last is not the one that began last.
TEST(Queues, AnOpWaitsForTheLastOfItsInputs) {
  const Flow flow = {{.inputs = {}, .routes = {{0, 1, 5}}},
                     {.inputs = {}, .routes = {{1, 1, 1}}},
                     {.inputs = {1}, .routes = {{2, 1, 1}}},
                     {.inputs = {0, 2}, .routes = {{3, 1, 1}}}};
  EXPECT_THAT(simulate_queues({flow}, 4, {{0, 0}}).latency, ElementsAre(6));
}

// From tier 0 to tier 1 a message of 100 bytes takes 2 s and then 1 s on the wire, of its sender and of its
// receiver; the bytes are counted.
TEST(Queues, MessagesTakeTheTimeOfTheirLink) {
  const comm::EmulatedLink link{.latency_seconds = 2, .bytes_per_second = 100};
  const Links links = {{{}, link}, {{}, {}}};
  const Flow flow = {
      {.inputs = {}, .routes = {{0, 1, 0.5, 0}}, .passes = 1, .bytes = 100, .sources = {{0, 500}}},
      {.inputs = {0}, .routes = {{1, 1, 0.25, 1}}}};
  const QueueReport one = simulate_queues({flow}, 2, {{0, 0}}, links);
  EXPECT_THAT(one.latency, ElementsAre(0.5 + 2 + 1 + 0.25));
  EXPECT_THAT(one.bytes, ElementsAre(ElementsAre(500, 100), ElementsAre(0, 0)));
  // The second leaves the server at 1, and the wire is taken until 1.5.
  EXPECT_THAT(simulate_queues({flow}, 2, {{0, 0}, {0, 0}}, links).latency, ElementsAre(3.75, 4.75));
  // Two servers send at once, and one wire receives.
  Flow two = flow;
  two[0].routes = {{0, 1, 0.5, 0}, {2, 1, 0.5, 0}};
  EXPECT_THAT(simulate_queues({two}, 3, {{0, 0}, {0, 0}}, links).latency, ElementsAre(3.75, 4.75));
}

TEST(Queues, ServersGetTheirShares) {
  const Flow flow = {{.inputs = {}, .routes = {{0, 3, 0.1}, {1, 1, 0.1}}}};
  std::vector<Arrival> arrivals;
  for (int i = 0; i < 8; ++i) arrivals.push_back({static_cast<double>(i), 0});
  const QueueReport report = simulate_queues({flow}, 2, arrivals);
  EXPECT_THAT(report.busy, ElementsAre(DoubleNear(0.6 / 7.1, 1e-12), DoubleNear(0.2 / 7.1, 1e-12)));
}

TEST(Queues, SomeRequestsAreAnsweredEarly) {
  const Flow flow = {{.inputs = {}, .routes = {{0, 1, 1}}},
                     {.inputs = {0}, .routes = {{1, 1, 4}}, .passes = 0.5}};
  EXPECT_THAT(simulate_queues({flow}, 2, {{0, 0}, {10, 0}, {20, 0}, {30, 0}}).latency,
              ElementsAre(1, 5, 1, 5));
}

// Of 100 messages a second a small model answers three quarters.
TEST(Queues, APlacementTakesTheRatesThatItWasMadeFor) {
  Workflow workflow;
  workflow.tiers = {"here"};
  workflow.workers = {{"box", 0, 1, 2}, {"gpu", 0, 1, 1}};
  workflow.sources = {{"camera", 0, 100, 0}};
  workflow.ops = {{"small", {{.is_source = true}}, {{"a", 0, {0.01, std::nullopt}, {{{}, 1}}}}},
                  {"large", {{.index = 0, .ratio = 0.25}}, {{"a", 0, {std::nullopt, 0.02}, {{{0}, 1}}}}}};
  const Placement placement{.variants = {0, 0},
                            .shares = {{0, 0, 100}, {1, 1, 25}},
                            .traffic = {{0, 0, 0, 0, 100}, {1, 0, 0, 0, 25}},
                            .rented = {{2, 0}, {0, 1}}};
  const PlacedFlow placed = flow_of(workflow, placement);
  EXPECT_THAT(placed.servers, ElementsAre("box/0", "box/1", "gpu"));
  std::vector<Arrival> arrivals;
  for (const double time : arrival_times(request_rate(workflow), 0, 4000, 1)) arrivals.push_back({time, 0});
  EXPECT_THAT(simulate_queues({placed.flow}, 3, arrivals).busy,
              ElementsAre(DoubleNear(0.5, 1e-3), DoubleNear(0.5, 1e-3), DoubleNear(0.5, 1e-3)));
}

// Two models on two GPUs, as in AlpaServe: each on one of them, or both as pipelines of two stages over both.
struct TwoModels {
  std::vector<Flow> apart, together;
};
TwoModels two_models(double seconds) {
  TwoModels result;
  for (int m = 0; m < 2; ++m) {
    result.apart.push_back({{.inputs = {}, .routes = {{m, 1, seconds}}}});
    result.together.push_back(
        {{.inputs = {}, .routes = {{0, 1, seconds / 2}}}, {.inputs = {0}, .routes = {{1, 1, seconds / 2}}}});
  }
  return result;
}

// Mean latency apart over mean latency together.
double gain(double first_rate, double second_rate, double variation) {
  constexpr double kSeconds = 0.3962;
  constexpr double kLength = 100'000;
  std::vector<Arrival> arrivals;
  const double rates[] = {first_rate, second_rate};
  for (int m = 0; m < 2; ++m) {
    for (const double time :
         arrival_times(rates[m], variation, static_cast<int64_t>(rates[m] * kLength), 7 + m))
      arrivals.push_back({time, m});
  }
  std::ranges::sort(arrivals, {}, &Arrival::time);
  const TwoModels models = two_models(kSeconds);
  return mean(simulate_queues(models.apart, 2, arrivals).latency) /
         mean(simulate_queues(models.together, 2, arrivals).latency);
}

// The closed forms for independent requests: D + λD²/(4 − 2λD) apart, with λ of both; D + λ(D/2)²/(2 − λD)
// together.
TEST(Queues, AgreeWithClosedForms) {
  constexpr double kSeconds = 0.3962, kRate = 3;
  const double apart = kSeconds + kRate * kSeconds * kSeconds / (4 - 2 * kRate * kSeconds);
  const double together = kSeconds + kRate * kSeconds * kSeconds / 4 / (2 - kRate * kSeconds);
  EXPECT_NEAR(apart, 0.6866, 3e-4);
  EXPECT_NEAR(together, 0.5414, 3e-4);
  EXPECT_NEAR(gain(1.5, 1.5, 1), apart / together, 0.02 * apart / together);
}

// Published: 1.3 for independent requests, 1.9 for bursts, 6.6 where one model has four fifths of the
// requests.
TEST(Queues, PipelinesOverAllGpusTakeBursts) {
  EXPECT_NEAR(gain(1.5, 1.5, 1), 1.3, 0.05);
  EXPECT_NEAR(gain(1.5, 1.5, 3), 1.9, 0.1);
  EXPECT_NEAR(gain(0.6, 2.4, 1), 6.6, 0.3);
}

}  // namespace
}  // namespace trireme::place
