// See parameter_patterns.h.
#include "trireme/optim/parameter_patterns.h"

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/base/text.h"
#include "trireme/ir/trained.h"
#include "trireme/plan/plan.h"

namespace trireme {

bool fits_any(std::span<const std::string> patterns, std::string_view name) {
  return std::ranges::any_of(patterns,
                             [&](const std::string& pattern) { return fits_pattern(pattern, name); });
}

void check_patterns(std::string_view setting, std::span<const std::string> patterns,
                    std::span<const std::string> names, std::string_view what) {
  for (const std::string& pattern : patterns) {
    if (std::ranges::any_of(names, [&](const std::string& name) { return fits_pattern(pattern, name); }))
      continue;
    const std::string near = nearest(pattern, names);
    throw_error(
        "{} has '{}', which fits no {} of this model{}; * stands for any text, as in 'h.0.*', and "
        "`trireme inspect graph` shows all names",
        setting, pattern, what, near.empty() ? "" : fmt::format(" (did you mean '{}'?)", near));
  }
}

Graph with_frozen(Graph graph, std::span<const std::string> patterns) {
  for (Value& value : graph.values) {
    if (value.role == Role::kParameter && fits_any(patterns, value.name))
      value.attrs.set(kFrozen, int64_t{1});
  }
  return graph;
}

std::vector<std::string> parameter_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Value& value : graph.values) {
    if (value.role == Role::kParameter) names.push_back(value.name);
  }
  return names;
}

}  // namespace trireme
