// What a plan says of single axes and values; plan_json.cc reads and writes its file.
#include "trireme/plan/plan.h"

#include <unistd.h>

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/input_file.h"
#include "trireme/base/text.h"

namespace trireme {
namespace {

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

int Plan::pipeline_stages() const {
  const int axis = mesh.find(kPipeAxis);
  return axis < 0 ? 1 : mesh.axes()[axis].size;
}

int Plan::parts_axis() const {
  const int pipe = mesh.find(kPipeAxis);
  return pipe >= 0 ? pipe : mesh.find(kServerAxis);
}

std::string Plan::parts_axis_name() const {
  const int axis = parts_axis();
  return axis < 0 || mesh.axes()[axis].size == 1 ? "" : mesh.axes()[axis].name;
}

Plan Plan::of_one_stage() const {
  Plan plan = *this;
  if (const Servers* servers = agreement.servers()) {
    plan.mesh = Mesh({{"data", servers->workers}});
    plan.agreement = {};
    return plan;
  }
  const int parts = parts_axis();
  if (parts < 0) return plan;
  std::vector<Axis> axes = mesh.axes();
  axes.erase(axes.begin() + parts);
  plan.mesh = Mesh(std::move(axes));
  for (auto& [pattern, layout] : plan.layouts) layout.erase(layout.begin() + parts);
  plan.algorithms.erase(mesh.axes()[parts].name);
  return plan;
}

int Plan::rank_in_stage(int rank) const {
  if (const Servers* servers = agreement.servers()) return rank - servers->count;
  int result = 0;
  for (size_t a = 0; a < mesh.axes().size(); ++a) {
    if (static_cast<int>(a) != parts_axis())
      result = result * mesh.axes()[a].size + mesh.coordinate(rank, static_cast<int>(a));
  }
  return result;
}

bool Plan::has(std::string_view part) const {
  const std::vector<std::string> parts = split(preset, '+');
  return std::ranges::find(parts, part) != parts.end();
}

const Preset* Plan::preset_over(std::string_view axis) const {
  const Preset* result = nullptr;
  for (const std::string& name : split(preset, '+')) {
    const Preset* part = find_preset(name);
    if (!part || part->axis != axis) continue;
    if (!result || !part->changes.empty()) result = part;
  }
  return result || (axis != kDataAxis && axis != kReplicaAxis) ? result : find_preset(axis);
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

Plan read_plan(const std::string& text, int ranks) {
  if (std::ranges::all_of(split(text, '+'),
                          [](const std::string& part) { return find_preset(part) != nullptr; })) {
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
  const bool is_json = text.starts_with('{');
  if (!is_json && ::access(text.c_str(), R_OK) != 0) {
    throw_error("--plan {}: neither a preset nor a file that can be read; {}", text,
                suggestion(text, preset_plans()));
  }
  constexpr size_t kMostBytes = size_t{1} << 24;
  const std::string source = is_json ? "--plan" : text;
  const Plan plan = parse_plan(is_json ? text : read_input_file(text, kMostBytes, "a plan, in JSON"), source);
  if (ranks != 0 && plan.mesh.ranks() != ranks) {
    throw_error("{}: its mesh '{}' has {} ranks, but {} are running; start that many with -n {}", source,
                to_string(plan.mesh), plan.mesh.ranks(), ranks, plan.mesh.ranks());
  }
  return plan;
}

}  // namespace trireme
