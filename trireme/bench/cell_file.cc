// See cell_file.h.
#include "trireme/bench/cell_file.h"

#include <nlohmann/json.hpp>

#include "trireme/base/error.h"

namespace trireme::bench {
namespace {

using CellJson = nlohmann::ordered_json;

CellJson losses_json(const Landscape::Losses& losses) {
  CellJson object{{"loss", losses.loss}};
  if (losses.accuracy) object["accuracy"] = *losses.accuracy;
  return object;
}

double real_of(const CellJson& object, const char* name) {
  const CellJson& value = object.at(name);
  if (!value.is_number()) throw_error("'{}' is no number", name);
  return value.get<double>();
}

Landscape::Losses losses_of(const CellJson& object) {
  Landscape::Losses losses{real_of(object, "loss"), {}};
  if (object.contains("accuracy")) losses.accuracy = real_of(object, "accuracy");
  return losses;
}

}  // namespace

std::string render_cell(const StoredCell& cell) {
  const CellResult& result = cell.result;
  CellJson object{{"settings", cell.settings}, {"highest_rate", result.highest_rate}};
  CellJson course = CellJson::array();
  for (const CellResult::HeldOut& point : result.course)
    course.push_back({{"step", point.step}, {"seconds", point.seconds}, {"loss", point.loss}});
  object["course"] = std::move(course);
  if (result.noise_scale) object["noise_scale"] = *result.noise_scale;
  if (result.failure.empty()) {
    object["training"] = losses_json(result.training);
    object["held_out"] = losses_json(result.held_out);
    object["sharpness"] = result.sharpness;
    object["sharpness_residual"] = result.sharpness_residual;
  } else {
    object["failure"] = result.failure;
  }
  return object.dump(2, ' ', false, CellJson::error_handler_t::replace) + "\n";
}

StoredCell parse_cell(std::string_view text, std::string_view file) {
  StoredCell cell;
  CellResult& result = cell.result;
  try {
    const CellJson object = CellJson::parse(text);
    cell.settings = object.at("settings").get<std::string>();
    result.highest_rate = real_of(object, "highest_rate");
    for (const CellJson& point : object.at("course"))
      result.course.push_back({real_of(point, "step"), real_of(point, "seconds"), real_of(point, "loss")});
    if (object.contains("noise_scale")) result.noise_scale = real_of(object, "noise_scale");
    if (object.contains("failure")) {
      result.failure = object.at("failure").get<std::string>();
      if (result.failure.empty()) throw_error("'failure' does not say why");
      return cell;
    }
    result.training = losses_of(object.at("training"));
    result.held_out = losses_of(object.at("held_out"));
    result.sharpness = real_of(object, "sharpness");
    result.sharpness_residual = real_of(object, "sharpness_residual");
  } catch (const std::exception& error) {
    throw_error("{}: not as it was written: {}; remove it, and its run is made again", file, error.what());
  }
  return cell;
}

}  // namespace trireme::bench
