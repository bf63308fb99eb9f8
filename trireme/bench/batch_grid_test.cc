// Which runs a grid has, their settings, and what comes of results that are known.
#include "trireme/bench/batch_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "trireme/bench/cell_file.h"

namespace trireme::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

BatchGrid small_grid() {
  BatchGrid grid;
  grid.batches = {16, 64};
  grid.optimizers = {{"sgd", 0.1}};
  grid.epochs = 2;
  return grid;
}

std::vector<std::string> names_of(const std::vector<GridCell>& cells) {
  std::vector<std::string> names;
  for (const GridCell& cell : cells) names.push_back(cell.name());
  return names;
}

TEST(BatchGrid, RunsSeeAsManySamplesWhateverTheirBatch) {
  const std::vector<GridCell> cells = grid_cells(small_grid(), Config(), 1000);
  for (const GridCell& cell : cells) {
    EXPECT_EQ(cell.steps, cell.batch == 16 ? 125 : 31) << cell.name();
    EXPECT_EQ(cell.warmup_steps, cell.warmup == 0 ? 0 : cell.batch == 16 ? 13 : 3) << cell.name();
  }
}

TEST(BatchGrid, HasEveryRunOnce) {
  // At the base batch, the smallest one, all rules are the same.
  EXPECT_THAT(names_of(grid_cells(small_grid(), Config(), 1000)),
              ElementsAre("sgd0.1-b16-none", "sgd0.1-b16-none-warm10", "sgd0.1-b64-none",
                          "sgd0.1-b64-none-warm10", "sgd0.1-b64-linear", "sgd0.1-b64-linear-warm10",
                          "sgd0.1-b64-sqrt", "sgd0.1-b64-sqrt-warm10"));
  // From the rate of the base batch to itself there is no warm-up.
  Config config;
  config.lr_schedule.warmup_from = "base";
  EXPECT_THAT(names_of(grid_cells(small_grid(), config, 1000)),
              ElementsAre("sgd0.1-b16-none", "sgd0.1-b64-none", "sgd0.1-b64-linear",
                          "sgd0.1-b64-linear-warm10", "sgd0.1-b64-sqrt", "sgd0.1-b64-sqrt-warm10"));
  // Nor is there one of no steps.
  EXPECT_EQ(grid_cells(small_grid(), Config(), 64).size(), 2u + 3u);
  config.optim.base_batch = 4;
  EXPECT_EQ(grid_cells(small_grid(), config, 1000).size(), 2u * (1 + 2 + 2));
}

TEST(BatchGrid, AnOptimizerMayHaveSeveralRates) {
  BatchGrid grid = small_grid();
  grid.optimizers = {{"sgd", 0.1}, {"sgd", 0.25}};
  grid.rules = {"none"};
  grid.warmups = {0};
  EXPECT_THAT(names_of(grid_cells(grid, Config(), 1000)),
              ElementsAre("sgd0.1-b16-none", "sgd0.1-b64-none", "sgd0.25-b16-none", "sgd0.25-b64-none"));
}

TEST(BatchGrid, CellsHaveTheSettingsOfTheirRun) {
  const BatchGrid grid = small_grid();
  Config base;
  base.train.batch = 5;
  base.lr_schedule.warmup_from = "base";
  const std::vector<GridCell> cells = grid_cells(grid, base, 1000);
  const Config config = cell_config(grid, base, cells[3], "here");
  EXPECT_EQ(config.train.batch, 64);
  EXPECT_EQ(config.train.steps, 31);
  EXPECT_EQ(config.train.accumulate, 2);
  EXPECT_TRUE(config.train.noise_scale);
  EXPECT_EQ(config.train.eval_batches, 512 / 64);
  EXPECT_EQ(config.optim.kind, "sgd");
  EXPECT_EQ(config.optim.lr, 0.1);
  EXPECT_EQ(config.optim.batch_rule, "linear");
  EXPECT_EQ(config.optim.base_batch, 16);
  EXPECT_EQ(config.lr_schedule.warmup_steps, 3);
  EXPECT_EQ(config.run.dir, "here");
  BatchGrid odd = grid;
  odd.batches = {3};
  EXPECT_FALSE(cell_config(odd, base, grid_cells(odd, base, 1000)[0], "here").train.noise_scale);
}

TEST(BatchGrid, RefusesWhatIsNoGrid) {
  BatchGrid grid = small_grid();
  grid.warmups = {1};
  EXPECT_THAT(error_of([&] { grid.validate(); }), HasSubstr("share of the run"));
  grid.warmups = {};
  EXPECT_THAT(error_of([&] { grid.validate(); }), HasSubstr("at least one"));
  OptimOptions settings;
  settings.lr = 0.5;
  EXPECT_EQ(parse_optimizer("lars", settings).rate, 0.5);
  EXPECT_EQ(parse_optimizer("lars=2", settings).rate, 2);
  EXPECT_THAT(error_of([&] { parse_optimizer("lars=two", settings); }), HasSubstr("like sgd=0.1"));
}

CellResult result_of(int64_t batch, std::vector<CellResult::HeldOut> course) {
  CellResult result{.cell = {.optimizer = "sgd", .batch = batch}};
  result.course = std::move(course);
  return result;
}

TEST(BatchGrid, StepsToALossAreTakenBetweenValidations) {
  const CellResult result = result_of(16, {{10, 1, 4}, {20, 2, 2}, {30, 3, 1}});
  EXPECT_DOUBLE_EQ(result.steps_to(3).value(), 15);
  EXPECT_DOUBLE_EQ(result.steps_to(2).value(), 20);
  EXPECT_DOUBLE_EQ(result.steps_to(9).value(), 10);  // at the latest
  EXPECT_FALSE(result.steps_to(0.5));
  EXPECT_DOUBLE_EQ(result.learned_per_second(), 1.5);
  const CellResult worse = result_of(64, {{5, 1, 4}, {10, 2, 3}});
  EXPECT_DOUBLE_EQ(common_target(std::vector{result, worse}).value(), 3);
  EXPECT_FALSE(common_target(std::vector{result, result_of(32, {})}));
}

// Batches whose steps follow the curve with S_min 10 and B_c 100, and a run of each with another rule that is
// slower.
TEST(BatchGrid, TheLeastStepsOfEachBatchGiveTheCriticalBatch) {
  std::vector<CellResult> results;
  for (const int64_t batch : {25, 100, 400}) {
    const double steps = 10 * (1 + 100 / static_cast<double>(batch));
    results.push_back(result_of(batch, {{0, 0, 2}, {2 * steps, 1, 0}}));
    results.push_back(result_of(batch, {{0, 0, 2}, {3 * steps, 1, 0}}));
    results.back().noise_scale = static_cast<double>(batch);
  }
  const std::vector<StepsByBatch> all = steps_by_batch(results, 1);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_THAT(all[0].noise_scales, ::testing::Optional(std::pair(25.0, 400.0)));
  ASSERT_TRUE(all[0].fit);
  EXPECT_NEAR(all[0].fit->least_steps, 10, 1e-9);
  EXPECT_NEAR(all[0].fit->critical_batch, 100, 1e-7);
}

TEST(CellFile, ComesBackAsItWasWritten) {
  StoredCell cell{"settings", result_of(16, {{10, 1, 4}, {20, 2, 0.1}})};
  cell.result.noise_scale = 900;
  cell.result.training = {1, 0.5};
  cell.result.held_out = {1.5, {}};
  cell.result.sharpness = 12;
  const StoredCell again = parse_cell(render_cell(cell), "cell.json");
  EXPECT_EQ(render_cell(again), render_cell(cell));
  EXPECT_EQ(again.result.course[1].loss, 0.1);
  EXPECT_EQ(again.result.training.accuracy, 0.5);
  cell.result.failure = "the loss is nan";
  EXPECT_EQ(parse_cell(render_cell(cell), "cell.json").result.failure, cell.result.failure);
  for (const char* bad : {"", "{}", R"({"settings": "", "highest_rate": null, "course": []})"})
    EXPECT_THAT(error_of([&] { parse_cell(bad, "cell.json"); }),
                HasSubstr("cell.json: not as it was written"));
}

}  // namespace
}  // namespace trireme::bench
