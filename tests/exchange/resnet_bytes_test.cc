// How many times less than dense sums methods send for the ResNet-18 of CIFAR-10 that they were published
// with: 3x3 stem, 11,173,962 parameters, of which 9,610 are in vectors.
#include <gtest/gtest.h>

#include "tests/exchange/ranks.h"

namespace trireme::testing {
namespace {

constexpr double kParameters = 11173962, kInVectors = 9610;
constexpr int kRanks = 2;

Training resnet18() {
  Training training = small_mlp();
  training.model.family = "resnet";
  training.model.layers = 18;
  training.model.stem = "3x3";
  training.model.classes = 10;
  training.shape = {kRanks, {3, 32, 32}};
  // With one, statistics of batch norm go another way where sums are dense, and the rest would not be the
  // same.
  training.train.accumulate = 2;
  training.steps = 1;
  training.rate = 1e-3;
  return training;
}

double bytes_of_program(const Training& training, const std::string& exchange) {
  const std::unique_ptr<Device> device = make_cpu_device(1);
  const Program program = step_program(training.model, training.train, training.optim, training.shape,
                                       *device, {plan_of("data:2", exchange), 0, nullptr});
  EXPECT_EQ(program.parameters, static_cast<int64_t>(kParameters));
  return bytes_sent_in_step(program);
}

// Of gradients alone: what else a step sends (statistics of batch norm, the loss and how many targets there
// are) it sends with any exchange, and 4 bytes that say whether all is finite.
class ResNetBytes : public ::testing::Test {
 protected:
  const Training training = resnet18();
  const double dense_gradients = 2.0 * (kRanks - 1) / kRanks * 4 * kParameters;
  const double others = bytes_of_program(training, R"("all_reduce")") - dense_gradients;

  double times_less(const std::string& exchange) const {
    const double finite = 2.0 * (kRanks - 1) / kRanks * 4;
    return dense_gradients / (bytes_of_program(training, exchange) - others - finite);
  }
};

// As published, vectors counted as they are sent: dense. In 24 steps 1023 MiB become 4.2, 7.5 and 14.2.
TEST_F(ResNetBytes, OfPowerSgd) {
  const auto of_rank = [&](int rank) {
    return times_less(fmt::format(R"({{"method": "power_sgd", "rank": {}}})", rank));
  };
  EXPECT_NEAR(of_rank(1), 243.256, 0.001);
  EXPECT_NEAR(of_rank(2), 135.837, 0.001);
  EXPECT_NEAR(of_rank(4), 72.132, 0.001);
  constexpr double kMiB = 1 << 20, kSteps = 24;
  EXPECT_NEAR(kSteps * 4 * kParameters / kMiB, 1023, 0.5);
  EXPECT_NEAR(kSteps * 4 * kParameters / kMiB / of_rank(1), 4.2, 0.05);
  EXPECT_NEAR(kSteps * 4 * kParameters / kMiB / of_rank(2), 7.5, 0.05);
  EXPECT_NEAR(kSteps * 4 * kParameters / kMiB / of_rank(4), 14.2, 0.05);
}

// A bit for four bytes: 32 where vectors are sent so too, and a little less where they stay dense.
TEST_F(ResNetBytes, OfSignum) {
  EXPECT_NEAR(times_less(R"({"method": "signum", "for": "*"})"), 32, 0.001);
  EXPECT_NEAR(times_less(R"("signum")"), kParameters / ((kParameters - kInVectors) / 32 + kInVectors), 0.001);
}

// What the transport counts in a step is what the programs promise.
TEST_F(ResNetBytes, AreWhatTheTransportCounts) {
  const char* const rank2 = R"({"method": "power_sgd", "rank": 2})";
  const History run = record_of(plan_of("data:2", rank2), training);
  const double promised = run.steps[0].bytes_promised;
  EXPECT_DOUBLE_EQ(promised, kRanks * bytes_of_program(training, rank2));
  EXPECT_NEAR(run.steps[0].bytes_sent, promised, 0.5);
}

}  // namespace
}  // namespace trireme::testing
