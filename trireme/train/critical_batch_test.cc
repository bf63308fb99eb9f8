// The estimate against a known truth, and that pieces are the same wherever they are computed.
#include "trireme/train/critical_batch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "trireme/base/rng.h"
#include "trireme/runtime/mesh_communicator.h"
#include "trireme/train/trainer.h"

namespace trireme {
namespace {

TEST(CriticalBatch, FindsTheTruthFromUnevenPieces) {
  constexpr int kDims = 50;
  constexpr double kDeviation = 3;                                    // of each of the 50 numbers, around 1
  constexpr double kTruth = kDeviation * kDeviation * kDims / kDims;  // tr Σ / |G|² = 9
  CriticalBatch critical;
  EXPECT_EQ(critical.targets(), std::nullopt);
  uint64_t drawn = 0;
  for (int step = 0; step < 400; ++step) {
    GradientSquares squares;
    double whole[kDims] = {};
    for (const int count : {1, 2, 5}) {
      for (int d = 0; d < kDims; ++d) {
        const double sum = count + kDeviation * std::sqrt(count) * normal(RngKey{1, 2}, drawn++);
        whole[d] += sum;
        squares.pieces += sum * sum;
      }
      squares.count_pieces += count * count;
      squares.count += count;
    }
    for (const double sum : whole) squares.whole += sum * sum;
    critical.add(squares);
  }
  EXPECT_NEAR(critical.targets().value(), kTruth, 0.15 * kTruth);
}

TEST(CriticalBatch, OnePieceSaysNothing) {
  CriticalBatch critical;
  critical.add({.pieces = 9, .count_pieces = 16, .whole = 9, .count = 4});
  critical.add({.pieces = NAN, .count_pieces = 8, .whole = 9, .count = 4});
  EXPECT_EQ(critical.targets(), std::nullopt);
}

GradientSquares squares_of(const std::string& preset, int ranks, int64_t accumulate) {
  constexpr int64_t kRows = 8;
  ModelOptions model;
  model.layers = 1;
  model.heads = 2;
  model.hidden = 16;
  model.vocab = 20;
  model.seq = 8;
  TrainOptions train;
  train.accumulate = accumulate;
  train.noise_scale = true;
  GradientSquares result;
  comm::run_rank_threads(ranks, [&](comm::Context& context) {
    const Plan plan{.mesh = Mesh({{"data", ranks}}), .preset = preset};
    MeshCommunicator communicator(plan.mesh, context);
    const std::unique_ptr<Device> device = make_cpu_device(1);
    Trainer trainer(model, train, {}, {kRows / accumulate, {8}}, *device,
                    {plan, context.rank(), ranks > 1 ? &communicator : nullptr});
    trainer.initialise(1);
    Batch batch;
    HostTensor ids, targets;
    for (HostTensor* tensor : {&ids, &targets}) {
      tensor->reset(DType::i32, {kRows, 8});
      uint64_t element = tensor == &ids ? 0 : 100;
      for (int32_t& value : tensor->values<int32_t>())
        value = static_cast<int32_t>(uniform(RngKey{3, 4}, element++) * 20);
    }
    for (int32_t& value : targets.row<int32_t>(1)) value = -1;  // uneven counts
    batch.tensors = {{"ids", ids}, {"targets", targets}};
    const GradientSquares squares = trainer.step(batch, 0, 1e-3).squares;
    if (context.rank() == ranks - 1) result = squares;
  });
  return result;
}

// Four pieces of two rows, in every way that there is.
TEST(CriticalBatch, PiecesAreMicrobatchesAndRanksUnderEveryPlan) {
  const GradientSquares expected = squares_of("data", 1, 4);
  EXPECT_EQ(expected.count, 56);
  EXPECT_EQ(expected.count_pieces, 8 * 8 + 3 * 16 * 16);
  EXPECT_GT(expected.pieces, 0);
  const double whole = squares_of("data", 1, 1).whole;
  EXPECT_NEAR(expected.whole, whole, 1e-4 * whole);
  for (const auto& [preset, ranks, accumulate] :
       {std::tuple("data", 4, 1), {"data", 2, 2}, {"zero1", 4, 1}, {"zero2", 2, 2}, {"zero3", 4, 1}}) {
    const GradientSquares found = squares_of(preset, ranks, accumulate);
    EXPECT_NEAR(found.pieces, expected.pieces, 1e-4 * expected.pieces) << preset;
    EXPECT_EQ(found.count_pieces, expected.count_pieces) << preset;
    EXPECT_NEAR(found.whole, expected.whole, 1e-4 * expected.whole) << preset;
    EXPECT_EQ(found.count, expected.count) << preset;
  }
}

TEST(CriticalBatch, IsFittedToStepsOfWholeRuns) {
  const auto steps = [](double batch) { return 40 * (1 + 900 / batch); };
  std::vector<BatchSteps> points;
  for (const double batch : {16, 64, 256, 1024, 8192}) points.push_back({batch, steps(batch)});
  const CriticalBatchFit exact = fit_critical_batch(points).value();
  EXPECT_NEAR(exact.least_steps, 40, 1e-6);
  EXPECT_NEAR(exact.critical_batch, 900, 1e-4);
  EXPECT_NEAR(exact.least_samples(), 36000, 1e-2);
  EXPECT_NEAR(exact.error, 0, 1e-9);
  EXPECT_NEAR(exact.steps(900), 80, 1e-4);  // twice the least
  // Runs that are 10 % off one way or the other count alike, whether they have ten steps or thousands.
  for (size_t i = 0; i < points.size(); ++i) points[i].steps *= i % 2 ? 1.1 : 0.9;
  const CriticalBatchFit rough = fit_critical_batch(points).value();
  EXPECT_NEAR(rough.critical_batch, 900, 300);
  EXPECT_NEAR(rough.error, 0.1, 0.03);
}

TEST(CriticalBatch, IsNotFittedWhereThereIsNoCurve) {
  EXPECT_FALSE(fit_critical_batch({}));
  EXPECT_FALSE(fit_critical_batch(std::vector<BatchSteps>{{16, 100}}));
  EXPECT_FALSE(fit_critical_batch(std::vector<BatchSteps>{{16, 100}, {16, 110}}));
  EXPECT_FALSE(fit_critical_batch(std::vector<BatchSteps>{{16, 100}, {64, 130}}));  // rises with the batch
  EXPECT_FALSE(fit_critical_batch(std::vector<BatchSteps>{{16, 100}, {64, 20}}));   // falls faster than 1/B
}

}  // namespace
}  // namespace trireme
