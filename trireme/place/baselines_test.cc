#include "trireme/place/baselines.h"

#include <gmock/gmock.h>

#include "trireme/place/workflow_file.h"

namespace trireme::place {
namespace {

Workflow published_example() {
  return read_workflow(TRIREME_SOURCE_DIR "/examples/workflows/questions_about_images.toml");
}

double cost_by(const std::vector<Baseline>& baselines, const Workflow& workflow, const std::string& name) {
  for (const Baseline& baseline : baselines) {
    if (baseline.name == name && baseline.placement) return cost_of(workflow, *baseline.placement).total();
  }
  ADD_FAILURE() << "no " << name;
  return 0;
}

TEST(Baselines, CostWhatIsKnownOfAPublishedExample) {
  const Workflow workflow = published_example();
  const std::vector<Baseline> ways = baselines(workflow, 60);
  const double greedy = cost_by(ways, workflow, "beam search, greedy workers");
  EXPECT_GE(greedy, 7.485) << "the optimum";
  EXPECT_LE(greedy, 7.51) << "what the prototype prints";
  EXPECT_NEAR(cost_by(ways, workflow, "most accurate variants"), 17.88, 5e-3);
  EXPECT_NEAR(cost_by(ways, workflow, "all in cloud"), 22.03, 5e-3);
  EXPECT_FALSE(ways.back().placement) << "five small workers are too few";
  EXPECT_EQ(ways.back().name, "all in edge");
  EXPECT_THAT(ways.back().why_not, testing::HasSubstr("cannot take the rates"));
}

TEST(Baselines, GreedyWorkersAreNoneWhereTheyRunOut) {
  Workflow workflow = published_example();
  EXPECT_TRUE(greedy_workers(workflow, {1, 0, 0}));
  for (Source& source : workflow.sources) source.rate = 1000;
  EXPECT_FALSE(greedy_workers(workflow, {1, 0, 0}));
}

// As wide as there are choices, the beam leaves none out that is accurate enough, and keeps none that is not.
TEST(BeamChoices, AreAllThatAreAccurateEnough) {
  for (const double accuracy : {54.0, 55.5, 56.0, 58.0, 58.33}) {
    Workflow workflow = published_example();
    workflow.accuracy = accuracy;
    std::vector<Variants> expected;
    for (int speech = 0; speech < 2; ++speech) {
      for (int image = 0; image < 5; ++image) {
        if (accuracy_of(workflow, {speech, image, 0}) >= accuracy) expected.push_back({speech, image, 0});
      }
    }
    EXPECT_THAT(beam_choices(workflow, 1000), testing::UnorderedElementsAreArray(expected)) << accuracy;
  }
}

// The cheapest of ten choices, each with its best workers, is the best of all.
TEST(BeamChoices, HaveTheBestOfAPublishedExample) {
  for (const double accuracy : {54.0, 56.0, 58.0}) {
    Workflow workflow = published_example();
    workflow.accuracy = accuracy;
    const double best = cost_of(workflow, best_placement(workflow, {}, 60).placement).total();
    double of_beam = 1e9;
    for (const Variants& variants : beam_choices(workflow, 10)) {
      const Allowed allowed{.variants = variants, .tiers = {}, .rented = {}};
      of_beam = std::min(of_beam, cost_of(workflow, best_placement(workflow, allowed, 60).placement).total());
    }
    EXPECT_NEAR(of_beam, best, 1e-6) << accuracy;
  }
}

}  // namespace
}  // namespace trireme::place
