// One run of a grid: trained, looked at, and kept as cell.json in its folder.
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "trireme/base/error.h"
#include "trireme/base/input_file.h"
#include "trireme/base/statistics.h"
#include "trireme/bench/batch_grid.h"
#include "trireme/bench/cell_file.h"
#include "trireme/run/loop.h"
#include "trireme/run/run_folder.h"
#include "trireme/train/bad_numbers.h"

namespace trireme::bench {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostCellBytes = size_t{1} << 24;

class CellObserver : public RunObserver {
 public:
  explicit CellObserver(CellResult& result) : result_(result) {}

  void stepped(const StepMetrics& step) override {
    seconds_ = step.seconds;
    result_.highest_rate = std::max(result_.highest_rate, step.lr);
    if (step.critical_batch && 2 * step.step >= result_.cell.steps) scales_.push_back(*step.critical_batch);
  }
  void validated(const ValidationMetrics& line) override {
    const bool again =
        !result_.course.empty() && result_.course.back().step == static_cast<double>(line.step);
    if (again || !std::isfinite(line.loss)) return;
    result_.course.push_back({static_cast<double>(line.step), seconds_, line.loss});
  }
  std::optional<double> noise_scale() const {
    if (scales_.empty()) return std::nullopt;
    return median_of(scales_);  // single steps divide by nearly nothing
  }

 private:
  CellResult& result_;
  double seconds_ = 0;
  std::vector<double> scales_;
};

// What makes two cells the same: all settings but the place.
std::string identity_of(const BatchGrid& grid, Config config) {
  config.run.dir.clear();
  return fmt::format("{}# looked at with {} samples, {} rows, seed {}\n", config_toml(config),
                     grid.look.samples, grid.look.rows, grid.look.seed);
}

void look_at(CellResult& result, const BatchGrid& grid, const std::string& folder, const OpenedData& data,
             const TrainOptions& train) {
  const TrainedModel model = open_trained_model(folder);
  const std::unique_ptr<Device> device =
      make_device({.kind = train.device, .threads = thread_count(train, 1)});
  const Landscape landscape = landscape_of({&model, 1}, data, *device, grid.look);
  const Landscape::Solution& solution = landscape.solutions[0];
  result.training = solution.training;
  result.held_out = solution.held_out.value();
  result.sharpness = solution.curvature.eigenvalue;
  result.sharpness_residual = solution.curvature.residual;
}

}  // namespace

std::pair<CellResult, CellSource> cell_result(const BatchGrid& grid, const ResolvedConfig& base,
                                              const GridCell& cell, const OpenedData& data,
                                              const std::string& folder) {
  if (!data.validation)
    throw_error("runs are compared on held-out data, and there is none (data.validation_fraction = {})",
                base.config.data.validation_fraction);
  ResolvedConfig config = base;
  config.config = cell_config(grid, base.config, cell, folder);
  const std::string identity = identity_of(grid, config.config);
  const std::string file = fs::path(folder) / "cell.json";
  if (fs::exists(file)) {
    StoredCell stored = parse_cell(read_input_file(file, kMostCellBytes, "a cell of a grid"), file);
    if (stored.settings != identity)
      throw_error(
          "{} is of a run with other settings; give the settings of that grid, or another folder for this one",
          file);
    stored.result.cell = cell;
    return {std::move(stored.result), CellSource::kRead};
  }
  CellResult result{.cell = cell};
  CellObserver observer(result);
  try {
    run_training(config, find_model(config.config.model), data, {}, observer);
    look_at(result, grid, folder, data, config.config.train);
  } catch (const BadNumbers& error) {
    result.failure = error.what();
  }
  result.noise_scale = observer.noise_scale();
  replace_file(file, render_cell({identity, result}));
  return {std::move(result), CellSource::kTrained};
}

}  // namespace trireme::bench
