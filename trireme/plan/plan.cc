// Plans as text.
#include "trireme/plan/plan.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "trireme/base/error.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;  // layouts keep their order: the first that fits a name counts

// A part of a preset, the axis that it spreads over, and the part that it changes, if any.
struct PresetPart {
  std::string_view name, axis, changes = "";
};
constexpr PresetPart kParts[] = {{"data", "data"},        {"zero1", "data"},
                                 {"zero2", "data"},       {"zero3", "data"},
                                 {"megatron", "tensor"},  {"sequence", "tensor", "megatron"},
                                 {"hybrid_cnn", "tensor"}};

const PresetPart* find_part(std::string_view name) {
  const auto found = std::ranges::find(kParts, name, &PresetPart::name);
  return found == std::end(kParts) ? nullptr : &*found;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::string near = nearest(word, known);
  return near.empty() ? fmt::format("known are {}", join(known, ", "))
                      : fmt::format("did you mean '{}'?", near);
}

bool contains(const std::vector<std::string>& list, std::string_view word) {
  return std::ranges::find(list, word) != list.end();
}

// The axes that a preset spreads over.
std::vector<std::string> preset_axes(const std::string& preset, std::string_view source) {
  const std::vector<std::string> names = split(preset, '+');
  std::vector<std::string> axes;
  for (const std::string& name : names) {
    const PresetPart* part = find_part(name);
    if (!part) throw_error("{}: there is no preset '{}'; {}", source, name, suggestion(name, preset_plans()));
    if (!part->changes.empty()) {
      if (!contains(names, part->changes))
        throw_error("{}: '{}' goes with {} only; say \"{}+{}\"", source, name, part->changes, part->changes,
                    name);
      continue;
    }
    if (contains(axes, part->axis))
      throw_error("{}: the preset '{}' says twice what to do over the axis '{}'", source, preset, part->axis);
    axes.emplace_back(part->axis);
  }
  return axes;
}

// The axes of a preset are there, and no axis is there for nothing. Data parallelism is always meant, with or
// without its axis.
void check_axes(const Plan& plan, std::string_view source) {
  std::vector<std::string> used = preset_axes(plan.preset, source);
  for (const std::string& axis : used) {
    if (plan.has("data") && axis == "data") continue;
    if (plan.mesh.axes().empty() || plan.mesh.find(axis) >= 0) continue;
    throw_error(
        "{}: the preset '{}' spreads over the axis '{}', which the mesh '{}' does not have; add {}:2, say, "
        "to "
        "the mesh, or leave that part out of the preset",
        source, plan.preset, axis, to_string(plan.mesh), axis);
  }
  if (!contains(used, "data")) used.emplace_back("data");
  const std::vector<std::string> of_preset = used;
  for (const auto& [pattern, layout] : plan.layouts) {
    for (size_t a = 0; a < layout.size(); ++a) {
      if (layout[a].kind != Placement::Kind::kReplicated) used.push_back(plan.mesh.axes()[a].name);
    }
  }
  for (const Axis& axis : plan.mesh.axes()) {
    if (contains(used, axis.name)) continue;
    const std::string near = nearest(axis.name, of_preset);
    throw_error("{}: the preset '{}' has no use for the axis '{}'; it spreads over {}{}", source, plan.preset,
                axis.name, join(of_preset, " and "),
                near.empty() ? "" : fmt::format(". Did you mean '{}'?", near));
  }
}

// Values that are nested deeper than any plan are refused as they are read: what is printed or freed level by
// level would overflow the stack.
Json parse_json(std::string_view text, std::string_view source) {
  constexpr int kMostLevels = 32;
  const auto check_depth = [&](int depth, Json::parse_event_t, const Json&) {
    if (depth > kMostLevels)
      throw_error("{}: values within values, more than {} levels deep; a plan has three", source,
                  kMostLevels);
    return true;
  };
  return Json::parse(text, check_depth, /*allow_exceptions=*/false);
}

std::string text_of(const Json& value, std::string_view key, std::string_view source) {
  if (!value.is_string()) throw_error("{}: {} is {}; a text expected", source, key, value.dump());
  return value.get<std::string>();
}

const Json& object_of(const Json& value, std::string_view key, std::string_view source) {
  if (!value.is_object()) throw_error("{}: {} is {}; an object expected", source, key, value.dump());
  return value;
}

// "data:2 tensor:2", or an object {"data": 2, "tensor": 2}: the order of its keys is that of the axes.
Mesh read_mesh(const Json& value, std::string_view source) {
  try {
    if (!value.is_object()) return parse_mesh(text_of(value, "mesh", source));
    std::vector<Axis> axes;
    for (const auto& [name, size] : value.items()) {
      if (!size.is_number_integer() || size.get<int64_t>() < 1 ||
          size.get<int64_t>() > std::numeric_limits<int>::max())
        throw_error("mesh: axis {} has size {}; a whole number, 1 or more, expected", name, size.dump());
      axes.push_back({name, size.get<int>()});
    }
    return Mesh(std::move(axes));
  } catch (const Error& error) {
    const std::string_view text = error.what();
    if (text.starts_with(source)) throw;
    throw_error("{}: {}", source, text);
  }
}

void read_layouts(const Json& value, Plan& plan, std::string_view source) {
  for (const auto& [pattern, layout] : object_of(value, "layouts", source).items()) {
    const std::string text = text_of(layout, "the layout of " + pattern, source);
    try {
      plan.layouts.emplace_back(pattern,
                                parse_layout(text.starts_with('{') ? text : "{" + text + "}", plan.mesh));
    } catch (const Error& error) {
      throw_error("{}: the layout of {}: {}", source, pattern, error.what());
    }
  }
}

void read_accumulate(const Json& value, Plan& plan, std::string_view source) {
  if (!value.is_number_integer() || value.get<int64_t>() < 1)
    throw_error("{}: accumulate is {}; a whole number of microbatches, 1 or more, expected", source,
                value.dump());
  plan.accumulate = value.get<int64_t>();
}

void read_precision(const Json& value, Plan& plan, std::string_view source) {
  const std::vector<std::string> known = {"f32", "bf16", "f16"};
  plan.precision = text_of(value, "precision", source);
  if (!contains(known, *plan.precision))
    throw_error("{}: there is no precision '{}'; {}", source, *plan.precision,
                suggestion(*plan.precision, known));
}

void read_batch_norm(const Json& value, Plan& plan, std::string_view source) {
  const std::vector<std::string> known = {"synchronised", "local"};
  const std::string text = text_of(value, "batch_norm", source);
  if (!contains(known, text))
    throw_error("{}: batch_norm is '{}'; {}", source, text, suggestion(text, known));
  plan.batch_norm = text == "local" ? Plan::BatchNorm::kLocal : Plan::BatchNorm::kSynchronised;
}

// How replicas agree. There is one way as yet; the key is there so that a plan says so.
void read_exchange(const Json& value, std::string_view source) {
  const std::vector<std::string> known = {"all_reduce"};
  const std::string text = text_of(value, "exchange", source);
  if (!contains(known, text))
    throw_error("{}: there is no exchange '{}'; {}", source, text, suggestion(text, known));
}

// One for all axes, or an object with one for each.
void read_algorithm(const Json& value, Plan& plan, std::string_view source) {
  if (value.is_string()) {
    for (const Axis& axis : plan.mesh.axes()) plan.algorithms[axis.name] = value.get<std::string>();
    return;
  }
  if (!value.is_object())
    throw_error("{}: algorithm is {}; a name, or an object with one for each axis, expected", source,
                value.dump());
  for (const auto& [axis, algorithm] : value.items()) {
    plan.mesh.axis(axis);  // an Error with the nearest name
    plan.algorithms[axis] = text_of(algorithm, "the algorithm of " + axis, source);
  }
}

// One part of a path. Where something of the name does not fit, the last star takes one character more;
// earlier stars never need to, so the time is that of the pattern's length times the name's.
bool fits_part(std::string_view pattern, std::string_view name) {
  size_t p = 0, n = 0, star = std::string_view::npos, taken = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++taken;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

}  // namespace

std::vector<std::string> preset_plans() {
  std::vector<std::string> names;
  for (const PresetPart& part : kParts) {
    names.push_back(part.changes.empty() ? std::string(part.name)
                                         : fmt::format("{}+{}", part.changes, part.name));
  }
  return names;
}

bool Plan::has(std::string_view part) const {
  return contains(split(preset, '+'), part);
}

const Layout* Plan::layout_of(std::string_view name) const {
  const auto found =
      std::ranges::find_if(layouts, [&](const auto& entry) { return fits_pattern(entry.first, name); });
  return found == layouts.end() ? nullptr : &found->second;
}

bool fits_pattern(std::string_view pattern, std::string_view name) {
  const size_t p = pattern.find('/'), n = name.find('/');
  if ((p == pattern.npos) != (n == name.npos)) return false;
  if (!fits_part(pattern.substr(0, p), name.substr(0, n))) return false;
  return p == pattern.npos || fits_pattern(pattern.substr(p + 1), name.substr(n + 1));
}

Plan parse_plan(std::string_view json, std::string_view source) {
  const Json root = parse_json(json, source);
  if (!root.is_object())
    throw_error("{}: no JSON object found; {{\"mesh\": \"data:2\", \"preset\": \"data\"}} is one", source);
  const std::vector<std::string> known = {"mesh",      "preset",   "layouts",   "accumulate",
                                          "precision", "exchange", "algorithm", "batch_norm"};
  for (const auto& [key, value] : root.items()) {
    if (!contains(known, key)) throw_error("{}: unknown key '{}'; {}", source, key, suggestion(key, known));
  }
  Plan plan;
  if (!root.contains("mesh"))
    throw_error("{}: there is no mesh; say for example \"mesh\": \"data:4\"", source);
  plan.mesh = read_mesh(root["mesh"], source);
  if (root.contains("preset")) plan.preset = text_of(root["preset"], "preset", source);
  if (root.contains("layouts")) read_layouts(root["layouts"], plan, source);
  if (root.contains("accumulate")) read_accumulate(root["accumulate"], plan, source);
  if (root.contains("precision")) read_precision(root["precision"], plan, source);
  if (root.contains("batch_norm")) read_batch_norm(root["batch_norm"], plan, source);
  if (root.contains("exchange")) read_exchange(root["exchange"], source);
  if (root.contains("algorithm")) read_algorithm(root["algorithm"], plan, source);
  check_axes(plan, source);
  return plan;
}

Plan read_plan(const std::string& text, int ranks) {
  if (std::ranges::all_of(split(text, '+'),
                          [](const std::string& part) { return find_part(part) != nullptr; })) {
    const std::vector<std::string> axes = preset_axes(text, "--plan " + text);
    if (axes.size() > 1) {
      throw_error(
          "--plan {}: it spreads over {}, and only a file says how many ranks each has; write "
          "{{\"mesh\": \"{}:… {}:…\", \"preset\": \"{}\"}}",
          text, join(axes, " and "), axes[0], axes[1], text);
    }
    if (ranks == 0) throw_error("--plan {}: how many ranks? Say -n, or give a file with a mesh", text);
    return {.mesh = Mesh({{axes[0], ranks}}), .preset = text};
  }
  std::ifstream file(text);
  if (!file) {
    throw_error("--plan {}: neither a preset nor a file that can be read; {}", text,
                suggestion(text, preset_plans()));
  }
  std::stringstream content;
  content << file.rdbuf();
  const Plan plan = parse_plan(content.str(), text);
  if (ranks != 0 && plan.mesh.ranks() != ranks) {
    throw_error("{}: its mesh '{}' has {} ranks, but {} are running; start that many with -n {}", text,
                to_string(plan.mesh), plan.mesh.ranks(), ranks, plan.mesh.ranks());
  }
  return plan;
}

std::string to_json(const Plan& plan) {
  Json json{{"mesh", to_string(plan.mesh)}, {"preset", plan.preset}};
  for (const auto& [pattern, layout] : plan.layouts) json["layouts"][pattern] = to_string(layout, plan.mesh);
  if (plan.accumulate) json["accumulate"] = *plan.accumulate;
  if (plan.precision) json["precision"] = *plan.precision;
  if (plan.batch_norm == Plan::BatchNorm::kLocal) json["batch_norm"] = "local";
  for (const auto& [axis, algorithm] : plan.algorithms) json["algorithm"][axis] = algorithm;
  return json.dump(2);
}

}  // namespace trireme
