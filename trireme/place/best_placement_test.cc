#include "trireme/place/best_placement.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <random>

#include "trireme/base/error.h"
#include "trireme/place/workflow_file.h"

namespace trireme::place {
namespace {

constexpr double kNoPlacement = std::numeric_limits<double>::infinity();

Workflow questions(double accuracy, double rate = 40, bool shared = false) {
  Workflow workflow = read_workflow(TRIREME_SOURCE_DIR "/examples/workflows/questions_about_images.toml");
  workflow.accuracy = accuracy;
  workflow.shared = shared;
  for (Source& source : workflow.sources) source.rate = rate;
  return workflow;
}

double least_cost(const Workflow& workflow, const Allowed& allowed = {}) {
  const BestPlacement best = best_placement(workflow, allowed, 60);
  EXPECT_TRUE(best.proven);
  const double cost = cost_of(workflow, best.placement).total();
  EXPECT_NEAR(cost, best.bound, 1e-6);
  return cost;
}

// Optima that were found by enumeration too.
TEST(BestPlacement, IsTheOptimumOfAPublishedExample) {
  const Workflow workflow = questions(56);
  const BestPlacement best = best_placement(workflow, {}, 60);
  EXPECT_TRUE(best.proven);
  EXPECT_NEAR(cost_of(workflow, best.placement).workers, 6.242, 5e-4);
  EXPECT_NEAR(cost_of(workflow, best.placement).network, 1.243, 5e-4);
  EXPECT_NEAR(least_cost(questions(54)), 7.027, 5e-4);
  EXPECT_NEAR(least_cost(questions(58)), 16.574, 5e-4);
  EXPECT_NEAR(least_cost(questions(56, 20)), 5.962, 5e-4);
  EXPECT_NEAR(least_cost(questions(56, 60)), 10.780, 5e-4);
}

TEST(BestPlacement, IsRefusedWithWhatIsMissing) {
  const auto refusal = [](const Workflow& workflow) -> std::string {
    try {
      best_placement(workflow, {}, 60);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(refusal(questions(60)),
              testing::HasSubstr("no combination of variants has accuracy 60; the best has 58.33"));
  EXPECT_THAT(refusal(questions(56, 1000)), testing::HasSubstr("cannot take the rates"));
  EXPECT_THROW(best_placement(questions(56, 1000), {}, 60), TooFewWorkers);
}

// Of 100 workers in five classes: equal ones are counted, not told apart.
TEST(BestPlacement, TakesManyWorkers) {
  Workflow workflow = questions(56, 700);
  for (WorkerClass& worker : workflow.workers) worker.count = 11;
  const BestPlacement best = best_placement(workflow, {}, 60);
  EXPECT_GE(best.bound, 0.99 * cost_of(workflow, best.placement).total());
}

TEST(BestPlacement, MayShareWorkers) {
  const Workflow workflow = questions(56, 40, true);
  const BestPlacement best = best_placement(workflow, {}, 60);
  EXPECT_NEAR(cost_of(workflow, best.placement).workers, 5.666, 5e-4);
  EXPECT_NEAR(cost_of(workflow, best.placement).network, 1.345, 5e-4);
}

TEST(BestPlacement, MayBeKeptToATier) {
  const Allowed in_the_cloud{.tiers = {false, true}};
  EXPECT_NEAR(least_cost(questions(56), in_the_cloud), 22.03, 5e-3);
  EXPECT_NEAR(least_cost(questions(56, 40, true), in_the_cloud), 17.23, 5e-3);
}

// A chain or a join of up to three ops, on up to four workers in two tiers; small enough to try everything.
Workflow random_workflow(std::mt19937_64& random, bool shared) {
  const auto upto = [&](int most) { return static_cast<int>(random() % most); };
  const auto between = [&](double least, double most) {
    return least + (most - least) * static_cast<double>(random() % 1000) / 1000;
  };
  Workflow workflow;
  workflow.shared = shared;
  workflow.tiers = {"low", "high"};
  workflow.links = {{0, 1, between(0, 0.5)}};
  const int workers = 3 + upto(2);
  for (int w = 0; w < workers; ++w)
    workflow.workers.push_back({"w" + std::to_string(w), w % 2, between(0.1, 2), 1});
  workflow.sources = {{"a", 0, between(1, 10), between(0, 300)}, {"b", 0, 0, between(0, 300)}};
  workflow.sources[1].rate = workflow.sources[0].rate;
  const bool join = upto(2) == 0;
  const int ops = 2 + upto(2);
  for (int o = 0; o < ops; ++o) {
    Op op{.name = "op" + std::to_string(o), .inputs = {}, .variants = {}};
    if (o == 0 || (join && o == 1 && ops == 3))
      op.inputs = {{.is_source = true, .index = o}};
    else if (join && ops == 3)
      op.inputs = {{.index = 0}, {.index = 1}};
    else
      op.inputs = {{.index = o - 1}};
    const size_t accuracies = op.inputs[0].is_source ? 0 : op.inputs.size();
    for (int v = 0; v < 2; ++v) {
      Variant variant{
          .name = "v" + std::to_string(v), .kilobytes = between(0, 100), .seconds = {}, .points = {}};
      for (int w = 0; w < workers; ++w) {
        if (upto(8) > 0)
          variant.seconds.emplace_back(between(0.01, 0.4));
        else
          variant.seconds.emplace_back(std::nullopt);
      }
      variant.seconds[0] = between(0.01, 0.4);
      if (accuracies == 0) variant.points = {{{}, static_cast<double>(upto(10))}};
      for (int p = 0; p < 3 && accuracies > 0; ++p) {
        AccuracyPoint point{std::vector<double>(accuracies), static_cast<double>(upto(10))};
        for (double& input : point.inputs) input = upto(10);
        variant.points.push_back(point);
      }
      op.variants.push_back(std::move(variant));
    }
    workflow.ops.push_back(std::move(op));
  }
  workflow.accuracy = upto(6);
  return workflow;
}

// Each op's variant, and for each worker the op that it is rented for, written out. What is left is how much
// each takes, which the solver is asked with all else given.
double least_by_trying(const Workflow& workflow) {
  const int ops = static_cast<int>(workflow.ops.size()), workers = static_cast<int>(workflow.workers.size());
  double least = kNoPlacement;
  for (int choice = 0; choice < 1 << ops; ++choice) {
    Variants variants;
    for (int o = 0; o < ops; ++o) variants.push_back(choice >> o & 1);
    if (accuracy_of(workflow, variants) < workflow.accuracy) continue;
    for (int code = 0; code < std::pow(ops + 1, workers); ++code) {
      Allowed allowed{.variants = variants, .tiers = {}, .rented = {}};
      allowed.rented.assign(ops, std::vector<int>(workers));
      double price = 0;
      for (int w = 0, rest = code; w < workers; ++w, rest /= ops + 1) {
        if (rest % (ops + 1) == ops) continue;
        allowed.rented[rest % (ops + 1)][w] = 1;
        price += workflow.workers[w].price_per_hour;
      }
      if (price >= least) continue;
      try {
        least = std::min(least, cost_of(workflow, best_placement(workflow, allowed, 60).placement).total());
      } catch (const Error&) {
      }
    }
  }
  return least;
}

TEST(BestPlacement, IsWhatTryingEverythingFinds) {
  std::mt19937_64 random(5);
  int placed = 0;
  for (int i = 0; i < 12; ++i) {
    const Workflow workflow = random_workflow(random, false);
    check(workflow, "random");
    const double least = least_by_trying(workflow);
    if (least == kNoPlacement) {
      EXPECT_THROW(best_placement(workflow, {}, 60), Error) << i;
    } else {
      EXPECT_NEAR(least_cost(workflow), least, 1e-6) << i;
      ++placed;
    }
  }
  EXPECT_GE(placed, 5);
}

}  // namespace
}  // namespace trireme::place
