// Plans as text.
#include "trireme/plan/plan.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

// A part of a preset and the axis that it spreads over.
struct PresetPart {
  std::string_view name, axis;
};
constexpr PresetPart kParts[] = {
    {"data", "data"}, {"zero1", "data"}, {"zero2", "data"}, {"zero3", "data"}, {"megatron", "tensor"}};

const PresetPart* find_part(std::string_view name) {
  const auto found = std::ranges::find(kParts, name, &PresetPart::name);
  return found == std::end(kParts) ? nullptr : &*found;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::string near = nearest(word, known);
  return near.empty() ? fmt::format("known are {}", join(known, ", "))
                      : fmt::format("did you mean '{}'?", near);
}

void check(const Plan& plan, std::string_view source) {
  std::vector<std::string> axes;
  for (const std::string& name : split(plan.preset, '+')) {
    const PresetPart* part = find_part(name);
    if (!part) throw_error("{}: there is no preset '{}'; {}", source, name, suggestion(name, preset_plans()));
    if (std::ranges::find(axes, part->axis) != axes.end())
      throw_error("{}: the preset '{}' says twice what to do over the axis '{}'", source, plan.preset,
                  part->axis);
    axes.emplace_back(part->axis);
  }
  // Every preset can do without an axis but none may be there in vain. Data parallelism is always meant.
  if (std::ranges::find(axes, "data") == axes.end()) axes.emplace_back("data");
  for (const Axis& axis : plan.mesh.axes()) {
    if (std::ranges::find(axes, axis.name) == axes.end()) {
      throw_error("{}: the preset '{}' has no use for the axis '{}'; it spreads over {}", source, plan.preset,
                  axis.name, join(axes, " and "));
    }
  }
}

std::string text_of(const nlohmann::json& value, std::string_view key, std::string_view source) {
  if (!value.is_string()) throw_error("{}: {} is {}; a text expected", source, key, value.dump());
  return value.get<std::string>();
}

}  // namespace

std::vector<std::string> preset_plans() {
  std::vector<std::string> names;
  for (const PresetPart& part : kParts) names.emplace_back(part.name);
  return names;
}

bool Plan::has(std::string_view part) const {
  const std::vector<std::string> parts = split(preset, '+');
  return std::ranges::find(parts, part) != parts.end();
}

Plan parse_plan(std::string_view json, std::string_view source) {
  const nlohmann::json root = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!root.is_object())
    throw_error("{}: no JSON object found; {{\"mesh\": \"data:2\", \"preset\": \"data\"}} is one", source);
  const std::vector<std::string> known = {"mesh", "preset"};
  for (const auto& [key, value] : root.items()) {
    if (std::ranges::find(known, key) == known.end())
      throw_error("{}: unknown key '{}'; {}", source, key, suggestion(key, known));
  }
  Plan plan;
  if (!root.contains("mesh"))
    throw_error("{}: there is no mesh; say for example \"mesh\": \"data:4\"", source);
  plan.mesh = parse_mesh(text_of(root["mesh"], "mesh", source));
  if (root.contains("preset")) plan.preset = text_of(root["preset"], "preset", source);
  check(plan, source);
  return plan;
}

Plan read_plan(const std::string& text, int ranks) {
  if (const PresetPart* part = find_part(text))
    return {.mesh = Mesh({{std::string(part->axis), ranks}}), .preset = text};
  std::ifstream file(text);
  if (!file) {
    throw_error("--plan {}: neither a preset nor a file that can be read; {}", text,
                suggestion(text, preset_plans()));
  }
  std::stringstream content;
  content << file.rdbuf();
  const Plan plan = parse_plan(content.str(), text);
  if (plan.mesh.ranks() != ranks) {
    throw_error("{}: its mesh '{}' has {} ranks, but {} are running; start that many with -n {}", text,
                to_string(plan.mesh), plan.mesh.ranks(), ranks, plan.mesh.ranks());
  }
  return plan;
}

std::string to_json(const Plan& plan) {
  return nlohmann::ordered_json{{"mesh", to_string(plan.mesh)}, {"preset", plan.preset}}.dump(2);
}

}  // namespace trireme
