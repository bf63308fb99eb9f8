// Which runs a grid has, and what they say together. See batch_grid.h; batch_cell.cc trains one.
#include "trireme/bench/batch_grid.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>

#include "trireme/base/error.h"

namespace trireme::bench {
namespace {

int64_t base_batch(const BatchGrid& grid, const Config& base) {
  return base.optim.base_batch > 0 ? base.optim.base_batch : std::ranges::min(grid.batches);
}

}  // namespace

void BatchGrid::validate() const {
  if (batches.empty() || rules.empty() || warmups.empty() || optimizers.empty())
    throw_error("a grid needs at least one batch, one rule, one warm-up and one optimizer");
  for (const int64_t batch : batches) {
    if (batch < 1) throw_error("a batch of {} was asked for, 1 or more expected", batch);
  }
  for (const double share : warmups) {
    if (!(share >= 0 && share < 1))
      throw_error("a warm-up of {} was asked for; expected is a share of the run from 0 to below 1", share);
  }
  if (!(epochs > 0)) throw_error("{} epochs were asked for, more than 0 expected", epochs);
  if (evaluations < 2) throw_error("{} evaluations were asked for, 2 or more expected", evaluations);
  look.validate();
}

BatchGrid::Optimizer parse_optimizer(const std::string& text, const OptimOptions& settings) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos) return {text, settings.lr};
  const std::string number = text.substr(equals + 1);
  char* end = nullptr;
  const double rate = std::strtod(number.c_str(), &end);
  if (number.empty() || *end != '\0' || !(rate >= 0) || !std::isfinite(rate))
    throw_error("'{}': expected an optimizer with its learning rate, like sgd=0.1", text);
  return {text.substr(0, equals), rate};
}

std::string GridCell::name() const {
  const std::string warm = warmup > 0 ? fmt::format("-warm{:g}", 100 * warmup) : "";
  return fmt::format("{}{:g}-b{}-{}{}", optimizer, rate, batch, rule, warm);
}

std::vector<GridCell> grid_cells(const BatchGrid& grid, const Config& base, int64_t samples) {
  grid.validate();
  const int64_t found_at = base_batch(grid, base);
  std::vector<GridCell> cells;
  for (const BatchGrid::Optimizer& optimizer : grid.optimizers) {
    for (const int64_t batch : grid.batches) {
      const double steps =
          std::round(grid.epochs * static_cast<double>(samples) / static_cast<double>(batch));
      for (const std::string& rule : batch == found_at ? std::vector{grid.rules.front()} : grid.rules) {
        const bool rises = (rule != "none" && batch != found_at) || base.lr_schedule.warmup_from == "zero";
        std::set<int64_t> lengths;
        for (const double warmup : grid.warmups) {
          GridCell cell{optimizer.kind, optimizer.rate, batch,
                        rule,           warmup,         std::max<int64_t>(1, static_cast<int64_t>(steps))};
          cell.warmup_steps =
              rises ? static_cast<int64_t>(std::round(warmup * static_cast<double>(cell.steps))) : 0;
          if (!lengths.insert(cell.warmup_steps).second) continue;
          if (cell.warmup_steps == 0) cell.warmup = 0;
          cells.push_back(std::move(cell));
        }
      }
    }
  }
  return cells;
}

Config cell_config(const BatchGrid& grid, const Config& base, const GridCell& cell,
                   const std::string& folder) {
  Config config = base;
  config.train.batch = cell.batch;
  config.train.batch_per_rank = 0;
  config.train.steps = cell.steps;
  if (config.train.accumulate == 1 && config.train.shards == 0 && cell.batch % 2 == 0)
    config.train.accumulate = 2;
  config.train.noise_scale = config.train.accumulate > 1;
  config.train.eval_every = std::max<int64_t>(1, cell.steps / grid.evaluations);
  config.train.eval_batches = std::max<int64_t>(1, grid.look.samples / cell.batch);
  config.optim.kind = cell.optimizer;
  config.optim.lr = cell.rate;
  config.optim.batch_rule = cell.rule;
  config.optim.base_batch = base_batch(grid, base);
  config.lr_schedule.warmup_steps = cell.warmup_steps;
  config.run.dir = folder;
  config.run.resume = "never";  // a cell that was interrupted begins anew
  config.run.checkpoint_every = 0;
  config.run.sample_tokens = 0;
  config.run.timeline_step = 0;
  return config;
}

std::optional<double> CellResult::steps_to(double target) const {
  for (size_t i = 0; i < course.size(); ++i) {
    const HeldOut& here = course[i];
    if (!(here.loss <= target)) continue;
    if (i == 0) return here.step;
    const HeldOut& before = course[i - 1];
    return before.step + (here.step - before.step) * (before.loss - target) / (before.loss - here.loss);
  }
  return std::nullopt;
}

double CellResult::learned_per_second() const {
  if (course.size() < 2) return 0;
  const double seconds = course.back().seconds - course.front().seconds;
  return seconds > 0 ? (course.front().loss - course.back().loss) / seconds : 0;
}

std::optional<double> common_target(std::span<const CellResult> results) {
  std::map<int64_t, double> least;
  for (const CellResult& result : results) {
    double& best =
        least.try_emplace(result.cell.batch, std::numeric_limits<double>::infinity()).first->second;
    for (const CellResult::HeldOut& point : result.course) best = std::min(best, point.loss);
  }
  double target = -std::numeric_limits<double>::infinity();
  for (const auto& [batch, loss] : least) target = std::max(target, loss);
  if (!std::isfinite(target)) return std::nullopt;
  return target;
}

std::vector<StepsByBatch> steps_by_batch(std::span<const CellResult> results, double target) {
  std::vector<StepsByBatch> all;
  for (const CellResult& result : results) {
    const auto found = std::ranges::find(all, result.cell.optimizer, &StepsByBatch::optimizer);
    StepsByBatch& own =
        found != all.end() ? *found : all.emplace_back(StepsByBatch{result.cell.optimizer, {}, {}, {}});
    if (result.noise_scale) {
      const auto [least, most] =
          own.noise_scales.value_or(std::pair(*result.noise_scale, *result.noise_scale));
      own.noise_scales = {std::min(least, *result.noise_scale), std::max(most, *result.noise_scale)};
    }
    const std::optional<double> steps = result.steps_to(target);
    if (!steps) continue;
    const auto batch = static_cast<double>(result.cell.batch);
    const auto point = std::ranges::find(own.points, batch, &BatchSteps::batch);
    if (point == own.points.end())
      own.points.push_back({batch, *steps});
    else
      point->steps = std::min(point->steps, *steps);
  }
  for (StepsByBatch& own : all) own.fit = fit_critical_batch(own.points);
  return all;
}

}  // namespace trireme::bench
