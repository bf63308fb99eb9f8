// See weight_versions.h.
#include "trireme/passes/weight_versions.h"

#include <fmt/format.h>

#include <set>

#include "trireme/ir/builder.h"
#include "trireme/ir/trained.h"
#include "trireme/ir/verify.h"

namespace trireme {

std::string version_name(std::string_view parameter) {
  return fmt::format("version.{}", parameter);
}

Graph with_kept_weights(Graph piece) {
  for (Value& value : piece.values) {
    if (!is_trained(value)) continue;
    value.attrs = {{"of", value.name}};
    value.name = version_name(value.name);
    value.role = Role::kVersion;
  }
  return piece;
}

Graph keeping_graph(const std::vector<const Graph*>& pieces, const OpTable& ops) {
  Builder b(ops, "keep");
  std::set<std::string_view> known;
  for (const Graph* piece : pieces) {
    for (const Value& value : piece->values) {
      if (value.role != Role::kVersion || !known.insert(value.name).second) continue;
      const ValueId weight = b.state(value.attrs.text("of"), value.type, Role::kParameter);
      b.update(b.declare(value), weight);
    }
  }
  debug_verify(b.graph());
  return b.take();
}

}  // namespace trireme
