// Paths as text; see scope.h.
#include "trireme/ir/scope.h"

#include <algorithm>

namespace trireme {

std::string_view scope_of(std::string_view name) {
  const size_t slash = name.rfind('/');
  return slash == name.npos ? "" : name.substr(0, slash);
}

std::string_view scope_of(const Graph& graph, const Node& node) {
  return scope_of(graph.values.at(node.outputs.at(0)).name);
}

bool has_part(std::string_view scope, std::string_view part) {
  for (size_t begin = 0; begin <= scope.size();) {
    const size_t end = std::min(scope.find('/', begin), scope.size());
    if (scope.substr(begin, end - begin) == part) return true;
    begin = end + 1;
  }
  return false;
}

std::string name_again(std::string_view name) {
  const std::string_view scope = scope_of(name);
  return join_scopes(join_scopes(scope, kAgainPart), name.substr(scope.empty() ? 0 : scope.size() + 1));
}

std::string name_before(std::string_view name) {
  const std::string_view scope = scope_of(name), outer = scope_of(scope);
  if (scope.substr(outer.empty() ? 0 : outer.size() + 1) != kAgainPart) return std::string(name);
  return join_scopes(outer, name.substr(scope.size() + 1));
}

std::string join_scopes(std::string_view outer, std::string_view inner) {
  std::string path(outer);
  if (!outer.empty() && !inner.empty()) path += '/';
  return path.append(inner);
}

std::string_view name_within(std::string_view scope, std::string_view name) {
  const auto same = [](char a, char b) { return a == b || (a == '/' && b == '.'); };
  if (scope.empty() || !std::ranges::equal(scope, name.substr(0, scope.size()), same)) return name;
  if (name.size() == scope.size()) return "";
  return name[scope.size()] == '.' ? name.substr(scope.size() + 1) : name;
}

}  // namespace trireme
