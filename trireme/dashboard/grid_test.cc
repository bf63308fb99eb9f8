// A curve that was cut shows what all of its points would show.
#include "trireme/dashboard/grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

namespace trireme::dashboard {
namespace {

using ::testing::ElementsAre;
using ::testing::NanSensitiveDoubleEq;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Points {
  std::vector<double> x, y;
  Curve curve() const { return {x, y}; }
};

Points noise(int points, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  Points made;
  for (int i = 0; i < points; ++i) {
    made.x.push_back(i + 1);
    made.y.push_back(normal(random));
  }
  return made;
}

// The lowest and highest pixel that a line through these points covers in each column: what is drawn, for
// lines. x in columns from 0, y in rows.
struct Drawing {
  std::vector<double> least, most;
  explicit Drawing(size_t columns) : least(columns, HUGE_VAL), most(columns, -HUGE_VAL) {}
  void dot(double x, double y) {
    const double column = std::floor(x);
    if (column < 0 || column >= static_cast<double>(least.size())) return;
    least[static_cast<size_t>(column)] = std::min(least[static_cast<size_t>(column)], std::round(y));
    most[static_cast<size_t>(column)] = std::max(most[static_cast<size_t>(column)], std::round(y));
  }
};

TEST(DashboardGrid, EveryExtremeIsThereAtEveryZoom) {
  Points points = noise(100'000, 1);
  for (const size_t spike : {size_t{7}, size_t{31'415}, size_t{99'998}}) points.y[spike] = 50;
  points.y[60'000] = -50;
  for (const auto& [from, to] : std::vector<std::pair<double, double>>{
           {1, 100'000}, {30'000, 62'000}, {31'000, 31'900}, {31'414, 31'417}, {59'990, 60'010}}) {
    for (const int cells : {10, 333, 1200}) {
      const Grid grid = grid_over(from, to, cells, 1);
      EXPECT_LE(grid.cells, cells);
      EXPECT_GT(grid.cells * 2, std::min<double>(cells, to - from + 1)) << "coarser than needed";
      const std::vector<double> drawn = cut(points.curve(), grid, kSlots);
      double least = HUGE_VAL, most = -HUGE_VAL;
      for (size_t i = 0; i < points.x.size(); ++i) {
        if (points.x[i] < static_cast<double>(grid.first) * grid.width ||
            points.x[i] >= static_cast<double>(grid.first + grid.cells) * grid.width)
          continue;
        least = std::min(least, points.y[i]);
        most = std::max(most, points.y[i]);
      }
      EXPECT_EQ(*std::ranges::min_element(drawn), least);
      EXPECT_EQ(*std::ranges::max_element(drawn), most);
    }
  }
}

// With a cell for each column of pixels, each column has the same lowest and highest pixel, and enters and
// leaves at the same ones.
TEST(DashboardGrid, DrawsTheLineOfAllPoints) {
  const Points points = noise(20'000, 2);
  const Grid grid = grid_over(0, 20'000, 700, 1);
  Drawing all(static_cast<size_t>(grid.cells)), few(static_cast<size_t>(grid.cells));
  for (size_t i = 0; i < points.x.size(); ++i) all.dot(points.x[i] / grid.width, 100 * points.y[i]);
  const std::vector<double> drawn = cut(points.curve(), grid, kSlots);
  for (size_t i = 0; i < drawn.size(); ++i) few.dot(static_cast<double>(i) / kSlots, 100 * drawn[i]);
  EXPECT_EQ(few.least, all.least);
  EXPECT_EQ(few.most, all.most);
  for (size_t cell = 0; cell < static_cast<size_t>(grid.cells); ++cell) {
    const auto at = [&](double x) {
      const auto i = static_cast<size_t>(x) - 1;
      return i < points.y.size() ? points.y[i] : points.y.back();
    };
    const double begin = static_cast<double>(cell) * grid.width;
    EXPECT_EQ(drawn[cell * kSlots], at(std::max(1.0, begin)));
    EXPECT_EQ(drawn[cell * kSlots + 3], at(std::min(20'000.0, begin + grid.width - 1)));
  }
}

TEST(DashboardGrid, TheMiddleTwoKeepTheirOrder) {
  const std::vector<double> x = {0, 1, 2, 3, 4, 5, 6, 7};
  const Grid cells_of_four{4, 0, 2};
  EXPECT_THAT(cut({x, std::vector<double>{2, 9, 1, 3, 5, 0, 7, 6}}, cells_of_four, kSlots),
              ElementsAre(2, 9, 1, 3, 5, 0, 7, 6));
}

TEST(DashboardGrid, NothingMovesWhenARunGrows) {
  Points points = noise(5'000, 3);
  const Grid before = grid_over(0, 5'000, 800, 1);
  const std::vector<double> drawn = cut(points.curve(), before, kSlots);
  const Points more = noise(5'300, 3);
  const Grid after = grid_over(0, 5'300, 800, 1);
  ASSERT_EQ(after.width, before.width);
  const std::vector<double> grown = cut(more.curve(), after, kSlots);
  // All but the cell that was the last.
  EXPECT_TRUE(std::equal(drawn.begin(), drawn.end() - kSlots, grown.begin()));
}

TEST(DashboardGrid, RunsShareCellsWhateverTheyHold) {
  const Grid grid = grid_over(10, 29, 10, 1);
  EXPECT_EQ(grid.width, 2);
  EXPECT_EQ(grid.first, 5);
  EXPECT_EQ(grid.cells, 10);
}

TEST(DashboardGrid, StepsHaveNoParts) {
  EXPECT_EQ(grid_over(100, 104, 1000, 1).width, 1);
  EXPECT_LT(grid_over(100, 104, 1000, std::exp2(-20)).width, 0.01);
}

TEST(DashboardGrid, ValuesThatAreNoneLeaveGaps) {
  const std::vector<double> x = {0, 1, 3, 4, kNan}, y = {1, kNan, HUGE_VAL, 4, 5};
  const Grid grid{1, 0, 5};
  EXPECT_THAT(cut({x, y}, grid, 1), ElementsAre(1, NanSensitiveDoubleEq(kNan), NanSensitiveDoubleEq(kNan),
                                                NanSensitiveDoubleEq(kNan), 4));
  EXPECT_EQ(most_points_in_a_cell({x, y}, grid), 1);
  EXPECT_THAT(means({std::vector<double>{0, 1, 5}, std::vector<double>{1, 3, 9}}, {4, 0, 1}), ElementsAre(2));
}

}  // namespace
}  // namespace trireme::dashboard
