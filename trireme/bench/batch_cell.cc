// One run of a grid: trained, looked at, and kept as cell.json in its folder.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/input_file.h"
#include "trireme/base/statistics.h"
#include "trireme/bench/batch_grid.h"
#include "trireme/run/loop.h"
#include "trireme/run/run_folder.h"
#include "trireme/train/bad_numbers.h"

namespace trireme::bench {
namespace {

namespace fs = std::filesystem;
using CellJson = nlohmann::ordered_json;

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

CellJson losses_json(const Landscape::Losses& losses) {
  CellJson object{{"loss", losses.loss}};
  if (losses.accuracy) object["accuracy"] = *losses.accuracy;
  return object;
}
Landscape::Losses losses_from(const nlohmann::json& object) {
  Landscape::Losses losses{object.at("loss").get<double>(), {}};
  if (object.contains("accuracy")) losses.accuracy = object.at("accuracy").get<double>();
  return losses;
}

CellJson cell_json(const CellResult& result, const std::string& identity) {
  CellJson object{{"settings", identity}, {"highest_rate", result.highest_rate}};
  CellJson course = CellJson::array();
  for (const CellResult::HeldOut& point : result.course)
    course.push_back({{"step", point.step}, {"seconds", point.seconds}, {"loss", point.loss}});
  object["course"] = std::move(course);
  if (result.noise_scale) object["noise_scale"] = *result.noise_scale;
  if (!result.failure.empty()) {
    object["failure"] = result.failure;
    return object;
  }
  object["training"] = losses_json(result.training);
  object["held_out"] = losses_json(result.held_out);
  object["sharpness"] = result.sharpness;
  object["sharpness_residual"] = result.sharpness_residual;
  return object;
}

CellResult cell_from(const std::string& file, const GridCell& cell, const std::string& identity) {
  CellResult result{.cell = cell};
  try {
    const auto object = nlohmann::json::parse(read_input_file(file, kMostCellBytes, "a cell of a grid"));
    if (object.at("settings").get<std::string>() != identity)
      throw_error(
          "{} is of a run with other settings; give the settings of that grid, or another folder for this one",
          file);
    result.highest_rate = object.at("highest_rate").get<double>();
    for (const nlohmann::json& point : object.at("course"))
      result.course.push_back({point.at("step").get<double>(), point.at("seconds").get<double>(),
                               point.at("loss").get<double>()});
    if (object.contains("noise_scale")) result.noise_scale = object.at("noise_scale").get<double>();
    if (object.contains("failure")) {
      result.failure = object.at("failure").get<std::string>();
      return result;
    }
    result.training = losses_from(object.at("training"));
    result.held_out = losses_from(object.at("held_out"));
    result.sharpness = object.at("sharpness").get<double>();
    result.sharpness_residual = object.at("sharpness_residual").get<double>();
  } catch (const nlohmann::json::exception& error) {
    throw_error("{}: not as it was written: {}; remove it, and the cell is trained again", file,
                error.what());
  }
  return result;
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
  if (fs::exists(file)) return {cell_from(file, cell, identity), CellSource::kRead};
  CellResult result{.cell = cell};
  CellObserver observer(result);
  try {
    run_training(config, find_model(config.config.model), data, {}, observer);
    look_at(result, grid, folder, data, config.config.train);
  } catch (const BadNumbers& error) {
    result.failure = error.what();
  }
  result.noise_scale = observer.noise_scale();
  replace_file(file, cell_json(result, identity).dump(2) + "\n");
  return {std::move(result), CellSource::kTrained};
}

}  // namespace trireme::bench
